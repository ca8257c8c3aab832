// The launch path's clock: the processor's counter where it ticks evenly on all cores, else CLOCK_MONOTONIC. Reading
// the clock was a fifth of the launch path's time (docs/design.md, "The launch path"); the counter costs a third of it.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace spillway::shim {

// CLOCK_MONOTONIC in nanoseconds.
std::int64_t now();

// True if this processor says that its counter neither stops nor changes its rate.
bool counter_is_even();

// Ticks of the counter, or nanoseconds where `use_counter` is false. One process uses one of them, from its first
// record on.
inline std::int64_t ticks([[maybe_unused]] bool use_counter) {
#if defined(__x86_64__)
  if (use_counter) [[likely]]
    return static_cast<std::int64_t>(__rdtsc());
#endif
  return now();
}

// Turns ticks into CLOCK_MONOTONIC nanoseconds, by both clocks read at the start and just now. Not thread-safe.
class TickClock {
 public:
  explicit TickClock(bool use_counter);
  // Reads both clocks: once before what was recorded up to now is converted. The ticks until now.
  std::int64_t synchronize();
  // Times of the future are now.
  [[nodiscard]] std::int64_t monotonic(std::int64_t ticks) const;

 private:
  bool use_counter_;
  std::int64_t first_ticks_, first_time_;
  std::int64_t ticks_, time_;
  double rate_ = 1;  // nanoseconds a tick, since the start
};

}  // namespace spillway::shim
