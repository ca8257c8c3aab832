#include "policy/trace/record_model.hpp"

#include <algorithm>

namespace spillway::policy::trace {
namespace {

constexpr std::size_t kHeader = 8;
constexpr std::size_t kShapeFixed = 28;  // header, shape, function, threads, count
constexpr std::size_t kArgument = 12;
constexpr std::size_t kMostWords = 65535;

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

constexpr std::size_t arguments_in(std::size_t record_bytes) { return (record_bytes - kShapeFixed) / kArgument; }

// Header and fields of a record whose size is its type's; 0 for other types.
constexpr std::size_t fixed_bytes(std::size_t type) {
  if (type == 11) return 16;
  if (type == 17) return 32;
  const char* const fields = packed_fields(type);
  if (fields == nullptr) return 0;
  std::size_t bytes = kHeader;
  for (const char* field = fields; *field != '\0'; ++field) bytes += *field == '4' ? 4 : 8;
  return bytes;
}

constexpr auto kFieldStarts = [] {
  std::array<std::size_t, 80> starts{};
  for (std::size_t type = 0; type < starts.size(); ++type) starts[type] = packed_field_start(type);
  return starts;
}();

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

// Whether the record is exactly as its fields make it, so that nothing but them need be kept.
template <class Coder>
bool RecordModel<Coder>::is_plain(std::span<const std::byte> record, std::size_t type) {
  if (record[1] != std::byte{0}) return false;
  std::size_t bytes = fixed_bytes(type);
  if (type == kShapeSeen) {
    if (record.size() < padded(kShapeFixed)) return false;
    const auto count = load<std::uint32_t>(record.data() + 24);
    if (count != arguments_in(record.size())) return false;
    bytes = kShapeFixed + count * kArgument;
  }
  return bytes != 0 && record.size() == padded(bytes) && all_zero(record.subspan(bytes));
}

template <class Coder>
std::size_t RecordModel<Coder>::code(Coder& coder, std::span<Byte> place, Text& text) {
  if (place.size() < kHeader) return 0;
  auto type = load<std::uint8_t>(place.data());
  bool plain = false;
  if constexpr (!Coder::kDecodes) plain = is_plain(place, type);
  type = code_type(coder, type, plain);
  const bool after_its_shape = type == kLaunched && last_ == kShapeSeen;
  const auto difference = static_cast<std::int32_t>(load<std::uint32_t>(place.data() + 4) - time_);
  time_ += static_cast<std::uint32_t>(
      times_[after_its_shape ? kTypes : slot(type)].code(coder, static_cast<std::uint64_t>(std::int64_t{difference})));
  before_ = last_;
  last_ = slot(type);

  std::size_t size = 0;
  if (!plain) {
    size = code_text(coder, place, text);
  } else if (type == kShapeSeen) {
    size = code_shape(coder, place);
  } else if (const std::size_t bytes = fixed_bytes(type); bytes != 0 && padded(bytes) <= place.size()) {
    size = padded(bytes);
    if constexpr (Coder::kDecodes) std::fill_n(place.begin() + static_cast<std::ptrdiff_t>(size) - 8, 8, std::byte{0});
    code_fields(coder, place.data(), type);
  }
  if (size == 0) return 0;
  store(place.data(), type);
  if (plain) store(place.data() + 1, std::uint8_t{0});
  store(place.data() + 2, static_cast<std::uint16_t>(size / 8));
  store(place.data() + 4, time_);
  return size;
}

// The type that came after the last two the last time, else any.
template <class Coder>
std::uint8_t RecordModel<Coder>::code_type(Coder& coder, std::uint8_t type, bool& plain) {
  TypeContext& context = contexts_[before_ * kTypes + last_];
  if (coder.bit(context.hit, plain && type == context.next)) {
    plain = true;
    return context.next;
  }
  type = static_cast<std::uint8_t>(types_[last_].code(coder, type));
  plain = coder.bit(plain_[slot(type)], plain);
  if (plain) context.next = type;
  return type;
}

template <class Coder>
void RecordModel<Coder>::code_fields(Coder& coder, Byte* record, std::size_t type) {
  const std::uint64_t now = first_time_ + time_;
  Byte* at = record + kHeader;
  if (type == kLaunched) {
    const std::uint32_t shape = launches_.code_launch(coder, load<std::uint32_t>(at));
    store(at, shape);
    store(at + 4, static_cast<std::uint32_t>(stream_.code(coder, load<std::uint32_t>(at + 4))));
    kernels_.note_launch(shape, now);
    return;
  }
  if (type == kKernelTimed) {
    const auto timed =
        kernels_.code(coder, {load<std::uint64_t>(at), load<std::uint64_t>(at + 8), load<std::uint64_t>(at + 16)});
    store(at, timed.launch);
    store(at + 8, timed.start);
    store(at + 16, timed.duration);
    return;
  }
  const std::size_t which = slot(type);
  std::size_t field = kFieldStarts[type];
  for (const char* width = packed_fields(type); *width != '\0'; ++width, ++field) {
    FieldModel& model = fields_[field];
    if (*width == '4') {
      store(at, static_cast<std::uint32_t>(model.code(coder, load<std::uint32_t>(at))));
      at += 4;
      continue;
    }
    std::uint64_t value = load<std::uint64_t>(at);
    if (*width == 'a') {
      value = addresses_[0].code(coder, value, last_address_[which]);
      last_address_[which] = value;
    } else {
      value = model.code(coder, value);
    }
    store(at, value);
    at += 8;
  }
  if (type == kGraphLaunched) kernels_.note_launch(0, now);
}

// Like the shape that was expected here, if it is of the same function; else like the last one of that function.
template <class Coder>
std::size_t RecordModel<Coder>::code_shape(Coder& coder, std::span<Byte> place) {
  if (place.size() < padded(kShapeFixed)) return 0;
  Byte* const at = place.data();
  const ShapeBook::Shape* base = shapes_.find(launches_.expected());
  const auto id = static_cast<std::uint32_t>(shape_id_.code(coder, load<std::uint32_t>(at + 8)));
  ShapeBook::Shape shape;
  shape.function = load<std::uint32_t>(at + 12);
  const std::uint32_t guess = base == nullptr ? 0 : base->function;
  const bool same_function = coder.bit(shape_same_[0], shape.function == guess);
  shape.function =
      same_function ? guess : static_cast<std::uint32_t>(function_.code(coder, std::uint64_t{shape.function}));
  if (base == nullptr || !same_function) base = shapes_.last_of(shape.function);
  const ShapeBook::Shape nothing;
  const ShapeBook::Shape like = base == nullptr ? nothing : *base;

  shape.threads = load<std::uint64_t>(at + 16);
  const bool same_threads = coder.bit(shape_same_[1], shape.threads == like.threads);
  shape.threads = same_threads ? like.threads : like.threads + threads_.code(coder, shape.threads - like.threads);
  shape.count = load<std::uint32_t>(at + 24);
  const bool same_count = coder.bit(shape_same_[2], shape.count == like.count);
  shape.count =
      same_count ? like.count
                 : static_cast<std::uint32_t>(like.count + count_.code(coder, std::uint64_t{shape.count} - like.count));
  const std::size_t bytes = kShapeFixed + std::size_t{shape.count} * kArgument;
  const std::size_t size = padded(bytes);
  if (size > place.size() || size > kMostWords * 8) return 0;
  if constexpr (Coder::kDecodes) std::fill_n(place.begin() + static_cast<std::ptrdiff_t>(size) - 8, 8, std::byte{0});
  store(at + 8, id);
  store(at + 12, shape.function);
  store(at + 16, shape.threads);
  store(at + 24, shape.count);

  shape.first = shapes_.arguments();
  ShapeBook::Argument last;
  for (std::uint32_t i = 0; i < shape.count; ++i) {
    Byte* const argument = at + kShapeFixed + i * kArgument;
    ShapeBook::Argument expected = shapes_.argument(like, i);
    if (i >= like.count) expected = last;
    auto index = load<std::uint32_t>(argument);
    const bool same_index = coder.bit(shape_same_[3], index == expected.index);
    index =
        same_index
            ? expected.index
            : static_cast<std::uint32_t>(expected.index + index_.code(coder, std::uint64_t{index} - expected.index));
    const std::uint64_t address = addresses_[1].code(coder, load<std::uint64_t>(argument + 4), expected.address);
    store(argument, index);
    store(argument + 4, address);
    last = {index, address};
    shapes_.add_argument(last);
  }
  shapes_.add(id, shape);
  launches_.note_shape(id);
  return size;
}

template <class Coder>
std::size_t RecordModel<Coder>::code_text(Coder& coder, std::span<Byte> place, Text& text) {
  store(place.data() + 1, static_cast<std::uint8_t>(text_flags_.code(coder, load<std::uint8_t>(place.data() + 1))));
  const std::uint64_t words = text_words_.code(coder, load<std::uint16_t>(place.data() + 2));
  if (words == 0 || words > kMostWords || words * 8 > place.size()) return 0;
  const std::span<Byte> payload = place.subspan(kHeader, words * 8 - kHeader);
  if constexpr (Coder::kDecodes) {
    if (text.size() < payload.size()) return 0;
    std::copy_n(text.begin(), payload.size(), payload.begin());
    text = text.subspan(payload.size());
  } else {
    text.insert(text.end(), payload.begin(), payload.end());
  }
  return words * 8;
}

template class RecordModel<RangeEncoder>;
template class RecordModel<RangeDecoder>;

}  // namespace spillway::policy::trace
