#include "policy/shape_costs.hpp"

#include <gtest/gtest.h>

namespace spillway::policy {
namespace {

// Three launches of one function over 4 MiB each, and one over 8.
std::vector<Event> recorded() {
  std::vector<Event> events;
  const auto add = [&events](EventBody body) { events.push_back({Nanoseconds(0), std::move(body)}); };
  add(FunctionSeen{{1}, "scale"});
  for (std::uint32_t i = 1; i <= 4; ++i) {
    const Bytes bytes = i == 4 ? 8_MiB : 4_MiB;
    const Address address{0x7000'0000'0000 + i * (std::uint64_t{1} << 30U)};
    add(AllocationSettled{{i}, address, bytes, Backing::managed, {}});
    add(LaunchShapeSeen{{i}, {1}, 1024, {{0, address}}});
    add(Launched{{i}, {}});
  }
  return events;
}

TEST(ShapeCosts, WithoutTimesBytesAtTheSpeedOfHbm) {
  const CostTable costs;
  const ShapeCosts shapes = infer_shape_costs(recorded(), costs);
  EXPECT_DOUBLE_EQ(shapes.at({1}).compute_seconds, static_cast<double>((4_MiB).count()) / costs.hbm);
}

TEST(ShapeCosts, MeasuredTimesCountTheShortestOfAKind) {
  std::vector<Event> events = recorded();
  const CostTable costs;
  const auto timed = [&events](std::uint64_t launch, std::int64_t microseconds) {
    events.push_back({Nanoseconds(0), KernelTimed{{launch}, Nanoseconds(0), Nanoseconds(microseconds * 1000)}});
  };
  timed(1, 90);  // its memory was on the host
  timed(2, 7);
  timed(2, 8);
  const ShapeCosts shapes = infer_shape_costs(events, costs);
  for (std::uint32_t shape = 1; shape <= 3; ++shape) EXPECT_DOUBLE_EQ(shapes.at({shape}).compute_seconds, 7e-6);
  EXPECT_DOUBLE_EQ(shapes.at({4}).compute_seconds, static_cast<double>((8_MiB).count()) / costs.hbm) << "another kind";
}

}  // namespace
}  // namespace spillway::policy
