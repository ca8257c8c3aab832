// All rings of the process. A thread gets one with its first record; when it ends, the ring is drained and then given
// to another thread. Rings are never unmapped, so a reader cannot meet freed memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "shim/event_ring.hpp"

namespace spillway::shim {

class RingRegistry {
 public:
  constexpr RingRegistry() = default;
  RingRegistry(const RingRegistry&) = delete;
  RingRegistry& operator=(const RingRegistry&) = delete;
  ~RingRegistry();

  // The calling thread takes a ring for its own: an orphaned and drained one, or a new one. Null without memory.
  EventRing* adopt();
  // The owner will write no more; what is in the ring is still drained.
  static void finish(EventRing* ring);

  // Consumer, one thread at a time: hands every record with a time up to `until` to `consume(const RecordHeader&)`,
  // oldest first over all rings. Returns how many. A record that a thread is still writing comes with a later call.
  template <class Consume>
  std::size_t drain(Consume&& consume, std::int64_t until = std::numeric_limits<std::int64_t>::max()) {
    std::size_t count = 0;
    while (EventRing* ring = oldest(until)) {
      consume(*ring->front());
      ring->pop();
      ++count;
    }
    return count;
  }

  // Records lost to full rings since the last call (consumer).
  std::uint64_t take_dropped();
  // In the child of a fork: the other threads are gone, and so is what they had written.
  void reset_after_fork();

 private:
  EventRing* oldest(std::int64_t until);

  std::atomic<EventRing*> first_{nullptr};
  std::atomic<std::uint32_t> count_{0};
  std::uint64_t dropped_taken_ = 0;
};

}  // namespace spillway::shim
