#include "policy/sampling.hpp"

#include <algorithm>

namespace spillway::policy {

LaunchCount window_length(LaunchCount iteration) {
  const std::uint64_t one = iteration.count();
  if (one == 0 || one > SampleClock::kLongest)
    return LaunchCount(one == 0 ? 2 * SampleClock::kShortest : SampleClock::kLongest);
  const std::uint64_t times = (SampleClock::kShortest + one - 1) / one;
  return LaunchCount(one * times);
}

SampleClock::Wish SampleClock::ask(LaunchNumber latest, LaunchCount iteration, Nanoseconds now) {
  const bool long_enough = open_ && latest.value >= opened_ + least_ && now - opened_at_ >= kLongEnough;
  if (!(percent_ > 0) || (latest.value < next_ && !long_enough)) return Wish::nothing;
  if (!open_) {
    open_ = true;
    opened_ = latest.value;
    opened_at_ = now;
    length_ = least_ = window_length(iteration).count();
    for (std::uint32_t i = 0; percent_ > 50 && i < grown_ && 2 * length_ <= kLongestGrown; ++i) length_ *= 2;
    next_ = latest.value + length_;
    return Wish::open;
  }
  length_ = std::min(length_, latest.value - opened_);
  give_up(latest);
  return Wish::close;
}

void SampleClock::give_up(LaunchNumber latest) {
  open_ = false;
  const double pause = static_cast<double>(length_) * (100.0 / std::max(percent_, 1e-3) - 1.0);
  next_ = latest.value + static_cast<std::uint64_t>(std::max(pause, 0.0));
}

}  // namespace spillway::policy
