// The trace reader on hostile bytes. Besides "no crash, no hang": what decodes is a value, so it encodes and decodes
// again, and its events can be replayed.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/replay.hpp"
#include "policy/shape_costs.hpp"
#include "policy/trace/trace_reader.hpp"

using namespace spillway::policy::trace;
using spillway::policy::Event;

namespace {

// Of one input: a replay takes longer than reading.
constexpr std::size_t kMostReplayed = 512;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_round_trip(const Record& record) {
  static std::vector<std::byte> place(kMaximumRecordBytes);
  const bool is_event = record.kind == RecordKind::event;
  const std::size_t size =
      is_event ? encode_record(place.data(), 0, record.event.body) : encode_record(place.data(), 0, record.decision);
  RecordCursor cursor({place.data(), size}, record.time);
  Record again;
  check(cursor.next(again) && again.kind == record.kind && again.time == record.time);
  if (again.cut || record.cut) return;
  if (is_event) {
    check(again.event == record.event);
  } else if (record.decision.cause.worth == record.decision.cause.worth) {  // not a NaN
    check(again.decision == record.decision);
  }
}

void check_replay(const std::vector<Event>& events) {
  using namespace spillway::policy;
  const ReplayResult result = replay(events, {}, infer_shape_costs(events, {}), {}, {});
  check(result.impossible <= events.size());
}

void keep(const Record& record, std::vector<Event>& events) {
  if (record.kind == RecordKind::event && events.size() < kMostReplayed) events.push_back(record.event);
}

// The payload of a packed frame, bare: a first and a continued one. What unpacks, packs and unpacks again. The first
// byte says how much it is to hold.
void check_packed(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::vector<std::byte> records((std::size_t{static_cast<std::uint8_t>(bytes[0])} + 1) * 64);
  const FrameUnpacker::Stored first{bytes.subspan(1), 0, 7, false};
  FrameUnpacker unpacker;
  if (!unpacker.unpack(first, records)) return;
  std::vector<std::byte> more(records.size());
  unpacker.unpack({bytes.subspan(1), 0, 8, true}, more);
  FramePacker packer(1);
  std::vector<std::byte> again(records.size());
  FrameUnpacker other;
  check(other.unpack({packer.pack(records, 7), 1, 7, false}, again));
  check(again == records);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  check_packed(bytes);
  // The records inside frames are behind checksums, which a fuzzer seldom gets right: they are also read bare.
  RecordCursor cursor(bytes, {});
  std::vector<Event> events;
  for (Record record; cursor.next(record);) {
    if (record.kind == RecordKind::event || record.kind == RecordKind::decision) check_round_trip(record);
    keep(record, events);
  }
  check_replay(events);
  events.clear();
  TraceReader reader(pull_from(bytes));
  if (reader.open()) return 0;
  std::uint64_t records = 0;
  for (Record record; reader.next(record); ++records) {
    check_round_trip(record);
    keep(record, events);
  }
  check_replay(events);
  check(reader.report().bytes == size);
  check(reader.records() == records);
  check(!(reader.whole() && (reader.report().cut_at || reader.report().damaged_frames > 0)));
  return 0;
}
