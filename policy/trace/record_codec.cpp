#include "policy/trace/record_codec.hpp"

#include <array>
#include <concepts>
#include <utility>
#include <variant>

namespace spillway::policy::trace {
namespace {

inline constexpr std::uint8_t kFirstEventType = 1;
inline constexpr std::uint8_t kFirstDecisionType = 64;
inline constexpr std::uint8_t kFlagCut = 1;
static_assert(std::variant_size_v<EventBody> <= 63 && std::variant_size_v<DecisionBody> <= 64);

struct RecordHeader {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::uint16_t words = 0;
  std::uint32_t time = 0;
};
static_assert(sizeof(RecordHeader) == kRecordHeaderBytes);

template <class Value, class Struct>
concept Is = std::same_as<std::remove_const_t<Value>, Struct>;

// The fields of each record, in wire order: the one place that names them, for writing (Value is const) and reading.
// A field added at the end is a new version of the format.
template <class Wire, Is<DeviceSeen> V>
void fields(Wire& wire, V& v) {
  wire(v.device, v.uuid, v.total, v.free, v.can_spill, v.name);
}
template <class Wire, Is<HostMemorySeen> V>
void fields(Wire& wire, V& v) {
  wire(v.available);
}
template <class Wire, Is<DeviceReserved> V>
void fields(Wire& wire, V& v) {
  wire(v.device, v.bytes, v.purpose);
}
template <class Wire, Is<FunctionSeen> V>
void fields(Wire& wire, V& v) {
  wire(v.function, v.name);
}
template <class Wire, Is<CallerSeen> V>
void fields(Wire& wire, V& v) {
  wire(v.caller, v.library);
}
template <class Wire, Is<AllocationRequested> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.device, v.bytes, v.kind, v.caller, v.stream, v.capturing);
}
template <class Wire, Is<AllocationSettled> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.address, v.bytes, v.backing, v.result);
}
template <class Wire, Is<FreeRequested> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.stream);
}
template <class Wire, Is<Freed> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.result);
}
template <class Wire, Is<LaunchShapeSeen> V>
void fields(Wire& wire, V& v) {
  wire(v.shape, v.function, v.threads, v.arguments);
}
template <class Wire, Is<Launched> V>
void fields(Wire& wire, V& v) {
  wire(v.shape, v.stream);
}
template <class Wire, Is<Copied> V>
void fields(Wire& wire, V& v) {
  wire(v.stream, v.kind, v.destination, v.source, v.bytes);
}
template <class Wire, Is<Filled> V>
void fields(Wire& wire, V& v) {
  wire(v.stream, v.address, v.bytes);
}
template <class Wire, Is<GraphSeen> V>
void fields(Wire& wire, V& v) {
  wire(v.graph, v.shapes);
}
template <class Wire, Is<GraphLaunched> V>
void fields(Wire& wire, V& v) {
  wire(v.graph, v.stream);
}
template <class Wire, Is<MoveFinished> V>
void fields(Wire& wire, V& v) {
  wire(v.decision, v.outcome, v.result, v.took);
}
template <class Wire, Is<KernelTimed> V>
void fields(Wire& wire, V& v) {
  wire(v.launch, v.start, v.duration);
}
template <class Wire, Is<PagesObserved> V>
void fields(Wire& wire, V& v) {
  wire(v.traffic, v.address, v.bytes);
}
template <class Wire, Is<EventsDropped> V>
void fields(Wire& wire, V& v) {
  wire(v.count);
}
template <class Wire, Is<TimePassed> V>
void fields(Wire& /*wire*/, V& /*v*/) {}
template <class Wire, Is<TelemetryChanged> V>
void fields(Wire& wire, V& v) {
  wire(v.state, v.detail);
}

template <class Wire, Is<Mapped> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.address);
}

template <class Wire, Is<ContextRefused> V>
void fields(Wire& wire, V& v) {
  wire(v.device, v.result);
}
template <class Wire, Is<MarkPassed> V>
void fields(Wire& wire, V& v) {
  wire(v.launch, v.result);
}
template <class Wire, Is<CallSeen> V>
void fields(Wire& wire, V& v) {
  wire(v.symbol);
}

template <class Wire, Is<BackAllocation> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.backing, v.first);
}
template <class Wire, Is<RefuseAllocation> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.missing);
}
template <class Wire, Is<MoveRange> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.offset, v.bytes, v.to, v.urgency, v.after, v.before);
}
template <class Wire, Is<AdviseRange> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.offset, v.bytes, v.advice);
}
template <class Wire, Is<CancelMoves> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation);
}
template <class Wire, Is<Note> V>
void fields(Wire& wire, V& v) {
  wire(v.allocation, v.offset, v.bytes, v.text);
}

template <class Wire, Is<MarkProgress> V>
void fields(Wire& wire, V& v) {
  wire(v.every);
}

// Pads to 8 bytes and puts the header before what `wire` wrote.
std::size_t finish_record(std::byte* place, const WireWriter& wire, std::size_t type, std::uint32_t time) {
  std::byte* end = wire.position();
  while ((end - place) % 8 != 0) *end++ = std::byte{0};
  const auto size = static_cast<std::size_t>(end - place);
  const RecordHeader header{static_cast<std::uint8_t>(type), wire.cut() ? kFlagCut : std::uint8_t{0},
                            static_cast<std::uint16_t>(size / 8), time};
  std::memcpy(place, &header, sizeof header);
  return size;
}

// decoders[i] reads alternative i of `Variant`, keeping the storage of a value of the same type that is already there.
template <class Variant, std::size_t... Index>
constexpr auto make_decoders(std::index_sequence<Index...> /*all*/) {
  using Decoder = void (*)(WireReader&, Variant&);
  return std::array<Decoder, sizeof...(Index)>{[](WireReader& wire, Variant& body) {
    auto* value = std::get_if<Index>(&body);
    if (value == nullptr) value = &body.template emplace<Index>();
    fields(wire, *value);
  }...};
}
template <class Variant>
constexpr auto kDecoders = make_decoders<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>{});

RecordKind kind_after(const WireReader& wire, RecordKind if_good) {
  if (wire.short_of_bytes()) return RecordKind::malformed;
  return wire.unknown_value() ? RecordKind::unknown : if_good;
}

}  // namespace

std::size_t encode_record(std::byte* place, std::uint32_t time, const EventBody& body) {
  WireWriter wire(place + kRecordHeaderBytes);
  std::visit([&wire](const auto& value) { fields(wire, value); }, body);
  return finish_record(place, wire, kFirstEventType + body.index(), time);
}

std::size_t encode_record(std::byte* place, std::uint32_t time, const Decision& decision) {
  WireWriter wire(place + kRecordHeaderBytes);
  wire(decision.id, decision.cause);
  std::visit([&wire](const auto& value) { fields(wire, value); }, decision.body);
  return finish_record(place, wire, kFirstDecisionType + decision.body.index(), time);
}

bool RecordCursor::next(Record& record) {
  if (rest_.empty()) return false;
  RecordHeader header;
  if (rest_.size() < sizeof header) {
    broken_ = true;
    return false;
  }
  std::memcpy(&header, rest_.data(), sizeof header);
  const std::size_t size = std::size_t{header.words} * 8;
  if (size < sizeof header || size > rest_.size()) {
    broken_ = true;
    return false;
  }
  record.type = header.type;
  record.cut = (header.flags & kFlagCut) != 0;
  // Unsigned: a forged frame time may wrap, and must not be undefined behaviour.
  const auto time = static_cast<std::uint64_t>(frame_time_.count()) + header.time;
  record.time = Nanoseconds(static_cast<std::int64_t>(time));
  WireReader wire(rest_.data() + sizeof header, rest_.data() + size);
  rest_ = rest_.subspan(size);
  const std::size_t event = std::size_t{header.type} - kFirstEventType;
  const std::size_t decision = std::size_t{header.type} - kFirstDecisionType;
  if (event < kDecoders<EventBody>.size()) {
    record.event.time = record.time;
    kDecoders<EventBody>[event](wire, record.event.body);
    record.kind = kind_after(wire, RecordKind::event);
  } else if (decision < kDecoders<DecisionBody>.size()) {
    wire(record.decision.id, record.decision.cause);
    kDecoders<DecisionBody>[decision](wire, record.decision.body);
    record.kind = kind_after(wire, RecordKind::decision);
  } else {
    record.kind = RecordKind::unknown;
  }
  return true;
}

}  // namespace spillway::policy::trace
