#include "policy/watchdog.hpp"

#include <algorithm>

namespace spillway::policy {

Nanoseconds Watchdog::median() const {
  std::array<Nanoseconds, kSample> sorted = recent_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[kSample / 2];
}

Verdict Watchdog::iteration(Nanoseconds took, Moves moves) {
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
  const double limit = static_cast<double>(before_.count()) * (1 + kTolerance);
  return static_cast<double>(after_.count()) > limit ? Verdict::revert : Verdict::keep;
}

void Watchdog::change() {
  // Changes that follow each other before a verdict are judged together, against the time before the first.
  if (!judging_) {
    if (count_ < kSample) return;
    before_ = median();
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
