#include "shim/ticks.hpp"

#include <time.h>

#include <algorithm>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace spillway::shim {

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool counter_is_even() {
#if defined(__x86_64__)
  constexpr unsigned kPowerManagement = 0x8000'0007;
  constexpr unsigned kInvariantCounter = 1U << 8U;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariantCounter) != 0;
#else
  return false;
#endif
}

TickClock::TickClock(bool use_counter)
    : use_counter_(use_counter),
      first_ticks_(shim::ticks(use_counter)),
      first_time_(now()),
      ticks_(first_ticks_),
      time_(first_time_) {}

std::int64_t TickClock::synchronize() {
  ticks_ = shim::ticks(use_counter_);
  time_ = use_counter_ ? now() : ticks_;
  const std::int64_t passed = ticks_ - first_ticks_;
  if (use_counter_ && passed > 0) rate_ = static_cast<double>(time_ - first_time_) / static_cast<double>(passed);
  return ticks_;
}

std::int64_t TickClock::monotonic(std::int64_t ticks) const {
  return time_ - static_cast<std::int64_t>(rate_ * static_cast<double>(std::max<std::int64_t>(ticks_ - ticks, 0)));
}

}  // namespace spillway::shim
