// Frees of spilled memory in the order of a stream. The driver frees managed memory only at once, after waiting for all
// that uses it; so such a free waits here until its stream has come so far, and a thread of ours does it.
//
// To the program the memory is freed with its call. To policy it is live as long as the work before the free may use
// it. Every member is safe from any thread; no driver call happens under the lock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/managed_pools.hpp"

namespace spillway::shim {

class DeferredFrees {
 public:
  // The code for the program: CUDA_ERROR_INVALID_VALUE for what was freed already.
  CUresult free(const Registered& memory, const PoolStream& stream);
  // Whether the memory there was freed by the program, and not yet by the driver.
  [[nodiscard]] bool holds(Session& session, policy::Address address);
  // Frees what can be freed by now, as somebody needs the room; gives a stuck driver up. True if anything went.
  bool settle();
  // The context's memory goes with it: before it does.
  void context_ends(CUcontext context);
  // At the program's end, after what can still be freed.
  void stop();

 private:
  struct Waiting {
    policy::AllocationId id;
    policy::Address address;
    CUcontext context = nullptr;
    std::shared_ptr<FreeMark> mark;  // null: not yet
    bool going = false;              // in the driver now
  };
  // With the lock.
  std::vector<Waiting>::iterator find(policy::AllocationId id);
  bool start_thread();
  // Without it.
  void run();
  bool pass();

  std::mutex mutex_;
  std::condition_variable wanted_;  // for the thread
  std::condition_variable passed_;  // from it
  std::vector<Waiting> waiting_;
  std::atomic<std::size_t> count_{0};
  std::uint64_t passes_wanted_ = 0, passes_ = 0, freed_ = 0;
  bool started_ = false, stopping_ = false;
};

// Of the process; never destroyed.
DeferredFrees& deferred_frees();

}  // namespace spillway::shim
