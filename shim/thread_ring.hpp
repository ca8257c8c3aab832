// The calling thread's ring, mapped on first use.
#pragma once

#include "shim/event_ring.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {

// Slow part of `thread_ring`: maps or adopts a ring; null if none can be had.
EventRing* make_thread_ring(ThreadState& thread);

inline EventRing* thread_ring(ThreadState& thread) {
  return thread.ring != nullptr ? thread.ring : make_thread_ring(thread);
}

}  // namespace spillway::shim
