// Kernel times by the driver's own events: a pair of them around one launch in so many, while a window is open.
//
// Telemetry's thread makes the events, opens and closes windows, and reads what they measured. The launching thread
// takes a pair for its launch, records one event before and one after it in the launch's own stream, and lets go; it
// makes nothing, waits for nothing and takes no lock, and calls the driver for launches that are sampled only. Nothing
// is sampled while anything is being captured. Events belong to contexts: each has its pairs, made once it was seen to
// launch, and forgotten when it ends.
//
// The launching thread gives a sampled launch's record the pair's ticket, by which whoever tells policy of the launch
// says what its number was (`told`). The first of our calls that the driver refuses ends it for good.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "policy/event_times.hpp"
#include "policy/forecast.hpp"
#include "shim/cuda_driver.hpp"
#include "shim/event_contexts.hpp"

namespace spillway::shim {

// One use of a pair; 0 is none.
using TimerTicket = std::uint64_t;

class LaunchTimer {
 public:
  class Pair;
  static constexpr std::uint32_t kPairs = 512;      // of a context: the most that are sampled in a window
  static constexpr std::uint64_t kLeastStride = 4;  // one launch in so many, or fewer

  // The launching thread. Null for a launch that is not sampled; else `begin` and `end` follow around the driver's
  // call.
  Pair* take(CUstream stream, bool per_thread);
  static TimerTicket ticket(const Pair& pair);
  static void begin(Pair& pair);
  void end(Pair& pair, CUresult result);
  // After `end`: nobody will be told of the launch.
  static void drop(Pair& pair);

  // Whoever tells policy of a launch: its number, or none if it was told as no launch. Any thread.
  void told(TimerTicket ticket, policy::LaunchNumber launch);

  // Telemetry's thread. Launches are sampled from `open` to `close`, in the contexts that have pairs.
  void open(policy::LaunchCount window);
  void make_pairs();  // for contexts that were launched in since
  void close();
  // Reads what is done. True if nothing more will come.
  bool collect();
  // Of all that was collected; pairs that are still out stay so, and are read in a later window.
  std::vector<policy::KernelTimed> take_times();
  // What the driver refused.
  [[nodiscard]] std::optional<CUresult> failure() const;

  // Any thread, with the session's lock or without. Before the driver ends a context, and after.
  void begin_context_end(CUcontext context);
  void end_context_end(CUcontext context, CUresult result);

  // CLOCK_MONOTONIC at which the session's time is zero; before the first window.
  void start_of_time(std::int64_t started) { started_ = started; }

 private:
  struct Pool : EventPlace {
    std::atomic<std::uint32_t> next{0};
    std::unique_ptr<Pair[]> pairs;  // made once
    // With a use of contexts.
    const Pair* first = nullptr;  // by which the others' starts are told, until `take_times`
    std::vector<policy::EventTime> times;
  };
  void fail(CUresult code);
  // With a use of contexts.
  static bool is_vacant(const Pool& pool);
  bool fill(Pool& pool);
  void forget(Pool& pool);
  bool collect(Pool& pool);
  bool read(Pool& pool, Pair& pair);
  void free(Pair& pair);
  [[nodiscard]] policy::Nanoseconds since_start(std::int64_t monotonic) const;

  EventContexts<Pool> contexts_;
  std::atomic<std::uint64_t> launches_{0};  // while windows were open
  std::atomic<std::uint64_t> share_{0};     // of 2^64 that is sampled
  std::atomic<CUresult> failure_{CUDA_SUCCESS};
  std::int64_t started_ = 0;

  std::mutex tickets_;  // of what pairs are told; may be taken with any other lock held
};

// Made by the first that asks, never destroyed.
LaunchTimer& launch_timer();

}  // namespace spillway::shim
