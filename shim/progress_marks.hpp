// How far the device is: an event that the program's next launch leaves in its own stream, once a mark is wanted.
//
// The policy thread makes the events and asks the driver for the oldest that is out. The launching thread records one
// right after its launch; it makes nothing, waits for nothing and takes no lock, and where no event can be had or
// something may be captured, the next launch does it instead. Marks are named by the decisions that want them, whose
// numbers grow: an event stands for all marks that are wanted when it is recorded. The first of our calls that the
// driver refuses ends it for good.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "policy/units.hpp"
#include "shim/event_contexts.hpp"

namespace spillway::shim {

class ProgressMarks {
 public:
  // Events that are out at a time. Each stands for a mark that was not answered yet, so that as many marks are enough.
  static constexpr std::uint32_t kMost = 64;

  // Any thread, with the session's lock or without: asks no driver.
  void want(policy::DecisionId mark);
  // What ended it, or CUDA_SUCCESS.
  [[nodiscard]] CUresult refused() const { return refused_.load(std::memory_order_relaxed); }
  // The driver is left alone from here on.
  void stop() { refuse(CUDA_ERROR_DEINITIALIZED); }

  // The launching thread, after a launch that the driver took while a mark was wanted (launch_path().events).
  void launched(CUstream stream, bool per_thread);

  struct Progress {
    policy::DecisionId passed;        // the device has passed this mark and all wanted before it
    CUresult refused = CUDA_SUCCESS;  // all others are not answered any more
    bool out = false;                 // an event is still to come
  };
  // The policy thread, without the session's lock.
  Progress look();

  // Any thread, without the session's lock. Before the driver ends a context, and after: what was out in it has passed.
  void begin_context_end(CUcontext context) { contexts_.begin_end(context); }
  void end_context_end(CUcontext context, CUresult result);

 private:
  struct Place : EventPlace {
    std::array<CUevent, kMost> events{};
    std::uint64_t use = 0;   // how many contexts have ended here
    std::uint32_t next = 0;  // of `events`; who has `recording_`
  };
  struct Out {
    Place* place = nullptr;
    std::uint64_t use = 0;
    CUevent event = nullptr;
    std::uint64_t marks = 0;  // all up to this one
  };
  void record(Place& place, CUstream stream);
  bool fill(Place& place);
  bool is_done(const Out& out);  // with the lock of contexts
  void refuse(CUresult code);

  EventContexts<Place> contexts_;
  std::atomic<std::uint64_t> wanted_{0};  // the latest mark
  std::atomic<CUresult> refused_{CUDA_SUCCESS};

  // From whoever has `recording_` to the policy thread. An event comes round again when all before it have passed.
  std::atomic_flag recording_;
  std::uint64_t covered_ = 0;  // marks for which an event was recorded
  std::array<Out, kMost> out_;
  std::atomic<std::uint32_t> recorded_{0};
  std::atomic<std::uint32_t> passed_{0};

  policy::DecisionId progress_;  // the policy thread's
};

// Made by the first that asks, never destroyed.
ProgressMarks& progress_marks();

}  // namespace spillway::shim
