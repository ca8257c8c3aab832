#include "policy/event_times.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

// Of a launch that waits for nothing some 10 us pass at most until the device has it (docs/driver_facts.md): twice that
// is the price of small kernels being timed at all.
constexpr Nanoseconds kShortGap{20'000};
constexpr std::int64_t kGapShare = 4;  // or a quarter of the time

}  // namespace

std::vector<KernelTimed> times_by_events(std::span<const EventTime> seen) {
  std::vector<KernelTimed> times;
  if (seen.empty()) return times;
  // No event is reached before it was recorded. The earliest zero of the device's clock that this allows is right if
  // some launch found its stream idle; else starts come out too early, and gaps longer than they were.
  const auto zero_of = [](const EventTime& one) { return one.called - one.began; };
  Nanoseconds zero = zero_of(seen.front());
  for (const EventTime& one : seen) zero = std::max(zero, zero_of(one));
  for (const EventTime& one : seen) {
    const Nanoseconds start = zero + one.began;
    const Nanoseconds gap = one.returned.saturating_minus(start);
    if (one.took <= Nanoseconds() || gap > std::max(kShortGap, Nanoseconds(one.took.count() / kGapShare))) continue;
    times.push_back({one.launch, std::max(start, Nanoseconds()), one.took});
  }
  std::sort(times.begin(), times.end(), [](const KernelTimed& a, const KernelTimed& b) { return a.launch < b.launch; });
  return times;
}

}  // namespace spillway::policy
