#include "policy/trace/frame_builder.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "policy/trace/record_codec.hpp"

namespace spillway::policy::trace {
namespace {

constexpr Nanoseconds kLongestSpan{4'000'000'000};  // below 2^32, which is what a record's time can hold

}  // namespace

FrameBuilder::FrameBuilder(FrameLimits limits)
    : limits_(limits), encoder_(limits.compression_level, limits.chain_bytes) {
  limits_.target_bytes = std::clamp<std::size_t>(limits.target_bytes, 1, kMaximumFrameBytes - kMaximumRecordBytes);
  buffer_.resize(limits_.target_bytes + kMaximumRecordBytes);
}

std::optional<FrameBytes> FrameBuilder::add(const Event& event) { return append(event.time, event.body); }

std::optional<FrameBytes> FrameBuilder::add(Nanoseconds time, const Decision& decision) {
  return append(time, decision);
}

template <class Body>
std::optional<FrameBytes> FrameBuilder::append(Nanoseconds time, const Body& body) {
  std::optional<FrameBytes> finished;
  if (records_ > 0 && (time > first_ + kLongestSpan || last_ > time + kLongestSpan)) finished = finish();
  if (records_ == 0) first_ = last_ = time;
  if (time < first_) make_room_before(time);
  last_ = std::max(last_, time);
  used_ += encode_record(buffer_.data() + used_, static_cast<std::uint32_t>((time - first_).count()), body);
  ++records_;
  if (used_ >= limits_.target_bytes && !finished) finished = finish();
  return finished;
}

// Moves the frame's first time back. Rare, and mostly while the frame is short: only the first few events of a frame
// can be overtaken.
void FrameBuilder::make_room_before(Nanoseconds time) {
  const auto earlier = static_cast<std::uint32_t>((first_ - time).count());
  for (std::size_t at = 0; at < used_;) {
    std::uint16_t words = 0;
    std::uint32_t record_time = 0;
    std::memcpy(&words, buffer_.data() + at + 2, sizeof words);
    std::memcpy(&record_time, buffer_.data() + at + 4, sizeof record_time);
    record_time += earlier;
    std::memcpy(buffer_.data() + at + 4, &record_time, sizeof record_time);
    at += std::size_t{words} * 8;
  }
  first_ = time;
}

std::optional<FrameBytes> FrameBuilder::finish() {
  if (records_ == 0) return std::nullopt;
  const FrameContents contents{FrameKind::records, first_, last_ - first_, records_};
  FrameBytes frame = encoder_.encode(std::span(buffer_).first(used_), contents);
  used_ = 0;
  records_ = 0;
  return frame;
}

std::optional<FrameBytes> FrameBuilder::finish_if_older(Nanoseconds now, Nanoseconds age) {
  if (records_ == 0 || now < first_ + age) return std::nullopt;
  return finish();
}

FrameBytes encode_loss(FrameEncoder& encoder, Nanoseconds time, std::uint64_t records) {
  std::array<std::byte, 64> place{};  // this record has a fixed size of 16
  const std::size_t size = encode_record(place.data(), 0, EventBody(EventsDropped{records}));
  return encoder.encode(std::span(place).first(size), {FrameKind::records, time, {}, 1});
}

}  // namespace spillway::policy::trace
