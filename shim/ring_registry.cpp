#include "shim/ring_registry.hpp"

#include <sys/mman.h>

#include <new>

namespace spillway::shim {

RingRegistry::~RingRegistry() {
  EventRing* ring = first_.load();
  while (ring != nullptr) {
    EventRing* next = ring->next_;
    munmap(ring, sizeof(EventRing));
    ring = next;
  }
}

EventRing* RingRegistry::adopt() {
  for (EventRing* ring = first_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next_) {
    auto nobody = EventRing::Owner::nobody;
    if (ring->owner_.compare_exchange_strong(nobody, EventRing::Owner::thread, std::memory_order_acq_rel)) return ring;
  }
  void* pages = mmap(nullptr, sizeof(EventRing), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  // Default-initialised on purpose where it matters: fresh pages are zero, and 1 MiB need not be touched now.
  auto* ring = new (pages) EventRing;
  ring->number_ = count_.fetch_add(1, std::memory_order_relaxed) + 1;
  ring->owner_.store(EventRing::Owner::thread, std::memory_order_relaxed);
  EventRing* first = first_.load(std::memory_order_relaxed);
  do {
    ring->next_ = first;
  } while (!first_.compare_exchange_weak(first, ring, std::memory_order_release, std::memory_order_relaxed));
  return ring;
}

void RingRegistry::finish(EventRing* ring) {
  ring->owner_.store(EventRing::Owner::finished, std::memory_order_release);
}

EventRing* RingRegistry::oldest(std::int64_t until) {
  EventRing* best = nullptr;
  std::int64_t best_time = 0;
  for (EventRing* ring = first_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next_) {
    // Asked before the look into the ring: a finished ring that is found empty stays empty.
    const bool finished = ring->owner_.load(std::memory_order_acquire) == EventRing::Owner::finished;
    const RecordHeader* header = ring->front();
    if (header == nullptr) {
      if (finished) ring->owner_.store(EventRing::Owner::nobody, std::memory_order_release);
      continue;
    }
    if (header->time > until || (best != nullptr && header->time >= best_time)) continue;
    best = ring;
    best_time = header->time;
  }
  return best;
}

std::uint64_t RingRegistry::take_dropped() {
  std::uint64_t total = 0;
  for (EventRing* ring = first_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next_) {
    total += ring->dropped();
  }
  const std::uint64_t fresh = total - dropped_taken_;
  dropped_taken_ = total;
  return fresh;
}

void RingRegistry::reset_after_fork() {
  for (EventRing* ring = first_.load(); ring != nullptr; ring = ring->next_) {
    ring->written_seen_ = ring->written_.load();
    ring->read_.store(ring->written_seen_);
    ring->owner_.store(EventRing::Owner::nobody);
  }
  dropped_taken_ = 0;
  take_dropped();
}

}  // namespace spillway::shim
