// The bytes of one record's payload: how each kind of field is laid out (FORMAT.md, "Records"), for writing and
// reading.
//
// Fields are packed, little-endian, unaligned. WireWriter trusts its caller to have kMaximumRecordBytes of room; it
// cuts what would not fit and remembers that it did. WireReader trusts nothing: past the end it fails and stays failed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "policy/decision.hpp"
#include "policy/event.hpp"

namespace spillway::policy::trace {

static_assert(std::endian::native == std::endian::little, "traces are written and read by little-endian machines only");

inline constexpr std::size_t kRecordHeaderBytes = 8;
inline constexpr std::size_t kMaximumRecordBytes = 65535 * 8;  // u16 words
inline constexpr std::size_t kMaximumTextBytes = 4096;
inline constexpr std::size_t kMaximumArguments = 4096;
inline constexpr std::size_t kMaximumGraphShapes = 65536;

// Enums of which this reader knows every meaning: the highest known value. A larger one comes from a newer writer.
template <class Enum>
inline constexpr std::uint32_t kHighest = 255;
template <>
inline constexpr std::uint32_t kHighest<AllocationKind> = 9;
template <>
inline constexpr std::uint32_t kHighest<Backing> = 1;
template <>
inline constexpr std::uint32_t kHighest<Placement> = 3;
template <>
inline constexpr std::uint32_t kHighest<CopyKind> = 3;
template <>
inline constexpr std::uint32_t kHighest<MoveOutcome> = 2;
template <>
inline constexpr std::uint32_t kHighest<PageTraffic> = 4;
template <>
inline constexpr std::uint32_t kHighest<TelemetryState> = 8;
template <>
inline constexpr std::uint32_t kHighest<Urgency> = 2;
template <>
inline constexpr std::uint32_t kHighest<Advice> = 7;

class WireWriter {
 public:
  explicit WireWriter(std::byte* position) : position_(position) {}

  template <class... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  [[nodiscard]] std::byte* position() const { return position_; }
  [[nodiscard]] bool cut() const { return cut_; }

 private:
  template <class Number>
  void raw(Number number) {
    std::memcpy(position_, &number, sizeof number);
    position_ += sizeof number;
  }
  template <class Tag, class Rep>
  void put(Id<Tag, Rep> id) {
    raw(id.value);
  }
  template <class Tag, class Rep>
  void put(Quantity<Tag, Rep> quantity) {
    raw(quantity.count());
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void put(Enum value) { raw(static_cast<std::uint32_t>(value)); }
  void put(bool value) { raw(std::uint32_t{value}); }
  void put(std::uint16_t value) { raw(std::uint32_t{value}); }
  void put(std::uint64_t value) { raw(value); }
  void put(DriverResult result) { raw(result.code); }
  void put(const std::array<std::uint8_t, 16>& bytes) { raw(bytes); }
  void put(const PointerArgument& argument) { (*this)(argument.index, argument.address); }
  void put(const std::string& text) {
    const std::size_t size = count(text.size(), kMaximumTextBytes);
    std::memcpy(position_, text.data(), size);
    position_ += size;
  }
  void put(const std::vector<PointerArgument>& arguments) {
    const std::size_t size = count(arguments.size(), kMaximumArguments);
    for (std::size_t i = 0; i < size; ++i) put(arguments[i]);
  }
  void put(const std::vector<LaunchShapeId>& shapes) {
    const std::size_t size = count(shapes.size(), kMaximumGraphShapes);
    for (std::size_t i = 0; i < size; ++i) put(shapes[i]);
  }
  void put(const Cause& cause) {
    raw(std::uint16_t{static_cast<std::uint8_t>(cause.reason)});
    raw(cause.rule);
    raw(cause.span_class);
    raw(std::uint16_t{0});
    raw(cause.worth);
    raw(std::uint32_t{0});
    put(cause.launch);
  }
  std::size_t count(std::size_t wanted, std::size_t limit) {
    cut_ = cut_ || wanted > limit;
    const std::size_t size = std::min(wanted, limit);
    raw(static_cast<std::uint32_t>(size));
    return size;
  }

  std::byte* position_;
  bool cut_ = false;
};

class WireReader {
 public:
  WireReader(const std::byte* position, const std::byte* end) : position_(position), end_(end) {}

  template <class... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }
  [[nodiscard]] bool short_of_bytes() const { return short_; }   // the record ends before its last field
  [[nodiscard]] bool unknown_value() const { return unknown_; }  // an enum of a newer writer

 private:
  template <class Number>
  Number raw() {
    Number number{};
    if (static_cast<std::size_t>(end_ - position_) < sizeof number) {
      short_ = true;
      position_ = end_;
      return number;
    }
    std::memcpy(&number, position_, sizeof number);
    position_ += sizeof number;
    return number;
  }
  template <class Tag, class Rep>
  void get(Id<Tag, Rep>& id) {
    id.value = raw<Rep>();
  }
  template <class Tag, class Rep>
  void get(Quantity<Tag, Rep>& quantity) {
    quantity = Quantity<Tag, Rep>(raw<Rep>());
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void get(Enum& value) {
    const auto number = raw<std::uint32_t>();
    unknown_ = unknown_ || number > kHighest<Enum>;
    value = static_cast<Enum>(number > kHighest<Enum> ? 0 : number);
  }
  void get(bool& value) { value = raw<std::uint32_t>() != 0; }
  void get(std::uint16_t& value) { value = static_cast<std::uint16_t>(raw<std::uint32_t>()); }
  void get(std::uint64_t& value) { value = raw<std::uint64_t>(); }
  void get(DriverResult& result) { result.code = raw<std::int32_t>(); }
  void get(std::array<std::uint8_t, 16>& bytes) { bytes = raw<std::array<std::uint8_t, 16>>(); }
  void get(PointerArgument& argument) { (*this)(argument.index, argument.address); }
  void get(std::string& text) {
    const std::size_t size = count(1);
    text.assign(reinterpret_cast<const char*>(position_), size);
    position_ += size;
  }
  void get(std::vector<PointerArgument>& arguments) {
    arguments.resize(count(12));
    for (PointerArgument& argument : arguments) get(argument);
  }
  void get(std::vector<LaunchShapeId>& shapes) {
    shapes.resize(count(4));
    for (LaunchShapeId& shape : shapes) get(shape);
  }
  void get(Cause& cause) {
    cause.reason = static_cast<Reason>(raw<std::uint16_t>() & 0xFFU);
    cause.rule = raw<std::uint16_t>();
    cause.span_class = raw<std::uint16_t>();
    static_cast<void>(raw<std::uint16_t>());
    cause.worth = raw<float>();
    static_cast<void>(raw<std::uint32_t>());
    get(cause.launch);
  }
  // A count of elements that take `bytes_each`; 0 and failed if the record cannot hold them.
  std::size_t count(std::size_t bytes_each) {
    const std::size_t size = raw<std::uint32_t>();
    if (size * bytes_each <= static_cast<std::size_t>(end_ - position_)) return size;
    short_ = true;
    return 0;
  }

  const std::byte* position_;
  const std::byte* end_;
  bool short_ = false;
  bool unknown_ = false;
};

}  // namespace spillway::policy::trace
