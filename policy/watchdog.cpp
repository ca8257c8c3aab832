#include "policy/watchdog.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

constexpr double kMostGrowth = 0.01;  // of an iteration's time, in each iteration

}  // namespace

Nanoseconds Watchdog::median() const {
  std::array<Nanoseconds, kSample> sorted = recent_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[kSample / 2];
}

Verdict Watchdog::iteration(Nanoseconds took, Moves moves) {
  ++elapsed_;
  if (judging_ && moves == Moves::open) {
    skip_ = true;
    count_ = 0;
    return Verdict::none;
  }
  if (skip_) {
    skip_ = false;
    return Verdict::none;
  }
  recent_[count_ % kSample] = took;
  ++count_;
  if (!judging_ || count_ < kSample) return Verdict::none;
  judging_ = false;
  after_ = median();
  const double expected = static_cast<double>(before_.count()) + growth_ * static_cast<double>(elapsed_);
  const double limit = expected * (1 + kTolerance);
  return static_cast<double>(after_.count()) > limit ? Verdict::revert : Verdict::keep;
}

void Watchdog::change() {
  // Changes that follow each other before a verdict are judged together, against the time before the first.
  if (!judging_) {
    if (count_ < kSample) return;
    before_ = median();
    // Noise must not excuse everything: at most 1% an iteration.
    const double slope = static_cast<double>((latest() - oldest()).count()) / (kSample - 1);
    growth_ = std::clamp(slope, 0.0, static_cast<double>(before_.count()) * kMostGrowth);
    elapsed_ = 0;
  }
  judging_ = true;
  skip_ = true;
  count_ = 0;
}

void Watchdog::reset() {
  judging_ = false;
  skip_ = false;
  count_ = 0;
}

}  // namespace spillway::policy
