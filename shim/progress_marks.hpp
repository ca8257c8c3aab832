// How far the device is: an event that about one launch in so many leaves after itself, in its own stream.
//
// The policy thread makes the events and asks the driver for the oldest that is out. The launching thread records one
// right after its launch; it makes nothing, waits for nothing and takes no lock, and where no event can be had or
// something may be captured, the next launch does it instead. The launch's record carries the mark's number, by which
// whoever tells policy of the launch says what its number was (`told`). The first of our calls that the driver refuses
// ends it for good.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "policy/units.hpp"
#include "shim/event_contexts.hpp"

namespace spillway::shim {

using MarkNumber = std::uint64_t;  // counts from 1; 0: none

class ProgressMarks {
 public:
  // Marks that are out at a time. A program may be 1,024 launches ahead.
  static constexpr std::uint64_t kMost = 256;

  // From now on one launch in so many, or none (0). Any thread, one at a time; asks no driver.
  void want(std::uint64_t every);
  // What ended it, or CUDA_SUCCESS.
  [[nodiscard]] CUresult refused() const { return refused_.load(std::memory_order_relaxed); }
  // The driver is left alone from here on.
  void stop() { refuse(CUDA_ERROR_DEINITIALIZED); }

  // The launching thread, after a launch that the driver took while marks were wanted (launch_path().events). What the
  // launch's record has to carry, or 0. Each number is then told or dropped, once.
  MarkNumber launched(CUstream stream, bool per_thread);
  // Its record was lost.
  void drop(MarkNumber number) { told(number, {}); }
  // Whoever drains the record. None: it is no launch of policy's.
  void told(MarkNumber number, policy::LaunchNumber launch);

  struct Progress {
    policy::LaunchNumber passed;      // the latest that the device has done, if it has done more than at the last look
    CUresult refused = CUDA_SUCCESS;  // nothing passes any more
    bool out = false;                 // a mark is still to come
  };
  // The policy thread, without the session's lock, after a drain: a mark whose record was not drained yet waits for it.
  Progress look();

  // Any thread, without the session's lock. Before the driver ends a context, and after: what was out in it is not
  // told.
  void begin_context_end(CUcontext context);
  void end_context_end(CUcontext context, CUresult result);

 private:
  struct Place : EventPlace {
    std::array<CUevent, kMost> events{};
    std::uint64_t use = 0;   // how many contexts have ended here
    std::uint64_t next = 0;  // of `events`; who has `recording_`
  };
  struct Mark {
    Place* place = nullptr;
    std::uint64_t use = 0;
    CUevent event = nullptr;
    std::atomic<std::uint64_t> launch{0};  // kUntold, or 0 if there is none to tell
  };
  static constexpr std::uint64_t kUntold = ~std::uint64_t{0};

  MarkNumber record(Place& place, CUstream stream);
  bool fill(Place& place);
  [[nodiscard]] bool full() const;
  bool is_over(const Mark& mark, policy::LaunchNumber& passed);  // with a use of contexts
  void refuse(CUresult code);
  Mark& mark(MarkNumber number) { return marks_[number % kMost]; }

  EventContexts<Place> contexts_;
  std::atomic<std::uint64_t> every_{0};
  std::atomic<std::uint64_t> launches_{std::uint64_t{1} << 62U};  // since the latest mark; the first may have one
  std::atomic<CUresult> refused_{CUDA_SUCCESS};

  // From whoever has `recording_` to the policy thread: marks after `over_`, up to `recorded_`, are out. An event comes
  // round again when all before it are over.
  std::atomic_flag recording_;
  std::array<Mark, kMost> marks_;
  std::atomic<MarkNumber> recorded_{0};
  std::atomic<MarkNumber> over_{0};

  policy::LaunchNumber latest_;  // that has passed; the policy thread's
};

// Made by the first that asks, never destroyed.
ProgressMarks& progress_marks();

}  // namespace spillway::shim
