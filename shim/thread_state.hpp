// What the shim keeps per thread: a few words, so that the library never needs static TLS.
#pragma once

#include <cstdint>

namespace spillway::shim {

class EventRing;

struct ThreadState {
  std::uint32_t depth = 0;        // hooks entered; above 0 every hook forwards at once
  std::uint32_t no_heap = 0;      // debug builds: above 0 an allocation aborts
  EventRing* ring = nullptr;      // mapped on the thread's first launch
  bool ring_refused = false;      // no ring could be had: record nothing, do not try at each launch
  bool resolving = false;         // inside the search for libcuda
  bool has_turn = false;          // Session::take_turn
  std::uint64_t pool_number = 0;  // of its own stream, in stream-ordered memory; never another thread's
};

// Global-dynamic on purpose: the initial-exec model would set STATIC_TLS, and a late dlopen of us could then fail.
extern thread_local constinit ThreadState this_thread __attribute__((tls_model("global-dynamic")));

// While one lives, every driver call of this thread goes straight to the real function: for our own threads (one for
// the thread's whole life) and for handlers (made by the entry).
class HookScope {
 public:
  explicit HookScope(ThreadState& thread = this_thread) : thread_(thread) { ++thread_.depth; }
  ~HookScope() { --thread_.depth; }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  ThreadState& thread_;
};

// While one lives, `operator new` of this library aborts in debug builds: nothing on the launch path may allocate.
class NoHeapScope {
 public:
  explicit NoHeapScope(ThreadState& thread) : thread_(thread) { ++thread_.no_heap; }
  ~NoHeapScope() { --thread_.no_heap; }
  NoHeapScope(const NoHeapScope&) = delete;
  NoHeapScope& operator=(const NoHeapScope&) = delete;

 private:
  ThreadState& thread_;
};

}  // namespace spillway::shim
