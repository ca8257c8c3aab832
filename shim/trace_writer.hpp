// Takes finished frames and puts them into a trace file from a thread of its own, so that the program never waits for
// a disk. The frames come from policy/trace's FrameBuilder.
//
// Threads: `submit` from one thread at a time (policy's); everything else from any thread, but not from a signal
// handler. The writer thread starts with the first frame and blocks the program's signals; a program without frames
// gets neither thread nor file. Frames are written as they come, so that after a SIGKILL the file holds all that was
// submitted.
//
// A good guest: a full queue drops and counts, and the trace says where; a file that has reached its size is kept
// readable, what comes later is counted, and its end is still written; any failure of the file turns tracing off with
// one message; nothing waits longer than kLongestWait; after a fork the child's copy does nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "policy/trace/frame.hpp"
#include "policy/units.hpp"
#include "shim/trace_path.hpp"

namespace spillway::shim {

struct TraceWriterOptions {
  std::string path_pattern;  // "spillway.%p.swt"
  TraceNames names;
  std::string header_json;  // policy/trace/header.hpp, encode_header
  // Told, at most once, why tracing went off; and once that the file is full. Called on the writer thread (or in
  // submit, if no thread can be had).
  std::function<void(const std::string&)> report;
  // Told the file's name where it is not the one asked for, because that exists. On the writer thread.
  std::function<void(const std::string&)> renamed;
  std::uint64_t most_bytes = 0;                     // of the file, its index and end included; 0: no limit
  std::size_t queue_bytes = std::size_t{16} << 20;  // frames waiting for the disk; past that they are dropped
};

class TraceWriter {
 public:
  // How long an exiting program may wait for its disk.
  static constexpr std::chrono::seconds kLongestWait{3};

  explicit TraceWriter(TraceWriterOptions options);
  ~TraceWriter();  // what was submitted is written, without an end: call close first
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Never waits for the disk. False if the frame was dropped: the queue is full, or tracing is off.
  bool submit(policy::trace::FrameBytes frame);

  // Returns when what was submitted is in the file (or in the kernel, which is as good for everything but a power
  // failure), or after `limit`.
  void flush_now(std::chrono::milliseconds limit = kLongestWait);

  // Writes index and end. `end_json` is policy/trace/header.hpp's encode_end, which also holds the reason of the end
  // ("exit", "signal", "unloaded") and dropped_frames(). Later frames are dropped. Does nothing the second time.
  void close(std::string_view end_json);

  // In a forked child, before anything else there: the child's copy goes off, the parent's file is left alone. Takes no
  // lock. A child that is to be traced makes a TraceWriter of its own.
  void after_fork_in_child();

  [[nodiscard]] bool is_on() const;
  [[nodiscard]] std::uint64_t dropped_frames() const;
  [[nodiscard]] std::uint64_t dropped_records() const;
  [[nodiscard]] std::uint64_t bytes_written() const;
  [[nodiscard]] std::string path() const;  // as opened; empty before that

 private:
  struct State;
  bool start(State& state);
  std::unique_ptr<State> state_;  // null in a forked child
};

}  // namespace spillway::shim
