#include "policy/modes/pace.hpp"

#include <utility>

#include "policy/queue_depth.hpp"

namespace spillway::policy {
namespace {

// A mark is heard up to a millisecond late. And where rounds are short a thousand launches have come soon: until then
// something is learned of the kernels as well.
constexpr Nanoseconds kLeastMeasured = Nanoseconds(100'000'000);

}  // namespace

void Pace::begin(LaunchNumber launch, Nanoseconds now, LaunchCount launched) {
  found_ = launch;
  launched_before_ = launched;
  marks_are_over_ = false;
  round_began_ = now;
  end_marks();
}

bool Pace::told_by_launches(LaunchCount launched, LaunchCount since) const {
  return launched >= launched_before_ + LaunchCount(kQueueDepth) + since;
}

std::optional<Nanoseconds> Pace::enqueued(Nanoseconds now, LaunchCount launched) {
  const Nanoseconds began = std::exchange(round_began_, now);
  if (!told_by_launches(launched)) return std::nullopt;
  marks_are_over_ = true;
  end_marks();
  return now - began;
}

void Pace::want_marks(LaunchCount round) {
  if (marks_are_over_ || marked_ != LaunchCount()) return;
  marked_ = round;
  writer_.emit(MarkProgress{round.count()}, {});
}

std::optional<Nanoseconds> Pace::passed(const MarkPassed& mark, Nanoseconds now) {
  const LaunchNumber since = from_ ? from_->launch : found_;
  if (marked_ == LaunchCount() || !mark.result.ok() || mark.launch <= since) return std::nullopt;
  if (!from_) {
    from_ = {mark.launch, now};
    return std::nullopt;
  }
  const std::uint64_t launches = mark.launch.value - since.value;
  if (launches < marked_.count() || now - from_->at < kLeastMeasured) return std::nullopt;
  const double rounds = static_cast<double>(launches) / static_cast<double>(marked_.count());
  const double took = static_cast<double>((now - from_->at).count()) / rounds;
  from_ = {mark.launch, now};
  return Nanoseconds(static_cast<std::int64_t>(took));
}

void Pace::end_marks() {
  from_.reset();
  if (std::exchange(marked_, {}) != LaunchCount()) writer_.emit(MarkProgress{}, {});
}

}  // namespace spillway::policy
