// One thread's bounded queue of launch records: written by that thread, read by one consumer, no lock, no heap.
//
// A record is built in place: reserve the most it may need, fill it, commit what it turned out to be, or abandon it.
// When there is no room the record is dropped and counted; the writer never waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/launch_record.hpp"

namespace spillway::shim {

class EventRing {
 public:
  static constexpr std::size_t kWords = std::size_t{1} << 17;  // 1 MiB: some 10,000 launches of 10 pointers

  // Writer: `words` contiguous words (at most kWords / 2), or null when full, which counts as a drop.
  std::uint64_t* reserve(std::size_t words);
  // Writer: publishes the first `words` of the reservation. The record's header must be complete.
  void commit(std::size_t words);
  // Writer: counts a record that could not be made.
  void drop() { dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // Consumer: the oldest record, or null. It stays valid until `pop`.
  [[nodiscard]] const RecordHeader* front();
  void pop();
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool empty() { return front() == nullptr; }

  [[nodiscard]] std::uint32_t number() const { return number_; }

 private:
  friend class RingRegistry;
  enum class Owner : std::uint32_t { thread, finished, nobody };

  [[nodiscard]] static std::size_t position(std::uint64_t count) { return count & (kWords - 1); }

  // Counts of words ever written and read; each on a line of its own, so that the two sides do not disturb each other.
  alignas(64) std::atomic<std::uint64_t> written_{0};
  std::uint64_t read_seen_ = 0;  // writer's last look at read_
  std::uint64_t start_ = 0;      // writer: where the reservation begins, padding included
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> read_{0};
  std::uint64_t written_seen_ = 0;  // consumer's last look at written_
  alignas(64) std::atomic<Owner> owner_{Owner::nobody};
  std::uint32_t number_ = 0;
  EventRing* next_ = nullptr;    // registry's list; written once, before the ring is published
  std::uint64_t words_[kWords];  // not initialised: the registry maps zero pages, and a ring is not touched until used
};

}  // namespace spillway::shim
