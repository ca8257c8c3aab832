// Records of a trace: one Event or Decision to bytes and back. FORMAT.md, "Records", is the layout.
//
// Pure and without allocation on the writing side. Reading trusts nothing: whatever the bytes are, a RecordCursor ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/trace/wire.hpp"

namespace spillway::policy::trace {

// Writes one record at `place`, which has kMaximumRecordBytes of room; returns its size, a multiple of 8.
// `time` is nanoseconds after the first time of the frame.
std::size_t encode_record(std::byte* place, std::uint32_t time, const EventBody& body);
std::size_t encode_record(std::byte* place, std::uint32_t time, const Decision& decision);

enum class RecordKind : std::uint8_t {
  event,      // `event` is set
  decision,   // `decision` is set; `time` is when it was made
  unknown,    // a type, or a value of an enum, from a newer writer: nothing but `time` and `type` is set
  malformed,  // shorter than its fields: skipped like an unknown one
};

// One record as read. Made to be reused: a loop that reads into the same Record does not allocate for common events.
struct Record {
  RecordKind kind = RecordKind::unknown;
  std::uint8_t type = 0;
  bool cut = false;  // the writer left out part of a long text or list
  Nanoseconds time;
  Event event;
  Decision decision;
};

// Walks the records of one frame's payload, which it does not own.
class RecordCursor {
 public:
  RecordCursor() = default;
  RecordCursor(std::span<const std::byte> payload, Nanoseconds frame_time) : rest_(payload), frame_time_(frame_time) {}

  // False at the end, also when the rest cannot be a record (then `broken()`).
  bool next(Record& record);
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::span<const std::byte> rest_;
  Nanoseconds frame_time_;
  bool broken_ = false;
};

}  // namespace spillway::policy::trace
