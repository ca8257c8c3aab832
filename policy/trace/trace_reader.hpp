// Reads a whole trace: header, events and decisions in decided order, end. What stats, replay, view and export build
// on.
//
//   TraceReader reader(pull);
//   if (auto error = reader.open()) ...
//   for (Record record; reader.next(record);) ...
//   reader.whole(), reader.report(), reader.end()
//
// Bounded memory, about 10 M launches/s on one core (tests/benchmarks). Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policy/trace/frame_reader.hpp"
#include "policy/trace/header.hpp"
#include "policy/trace/record_codec.hpp"

namespace spillway::policy::trace {

class TraceReader {
 public:
  explicit TraceReader(PullBytes pull) : frames_(std::move(pull)) {}

  std::optional<TraceError> open();
  // Records of a newer writer and malformed ones are counted and left out.
  bool next(Record& record);

  [[nodiscard]] const TraceHeader& header() const { return header_; }
  [[nodiscard]] const ReadReport& report() const { return frames_.report(); }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  [[nodiscard]] std::uint64_t unknown_records() const { return unknown_; }
  [[nodiscard]] std::uint64_t malformed_records() const { return malformed_; }

  // Set once everything has been read.
  [[nodiscard]] const std::optional<TraceEnd>& end() const { return end_; }
  [[nodiscard]] const std::vector<IndexEntry>& index() const { return index_; }
  // True if the run's end was reached and nothing was damaged on the way.
  [[nodiscard]] bool whole() const;
  // True if the last record says that events were dropped there.
  [[nodiscard]] bool ends_in_loss() const { return ends_in_loss_; }

 private:
  FrameReader frames_;
  TraceHeader header_;
  RecordCursor cursor_;
  std::optional<TraceEnd> end_;
  std::vector<IndexEntry> index_;
  std::uint64_t records_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t malformed_ = 0;
  bool ends_in_loss_ = false;
};

}  // namespace spillway::policy::trace
