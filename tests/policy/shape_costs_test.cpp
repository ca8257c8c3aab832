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

// 8 MiB in an allocation of their own, which tells how far a thread of the filling kernel reaches. Then a pointer that
// is cut at 2 MiB by another part of the program: the product before it and after it means what the filling kernel
// made.
TEST(ShapeCosts, AProductMeansWhatAStreamingKernelMakesAtItsAddress) {
  std::vector<Event> events;
  const auto add = [&events](EventBody body) { events.push_back({Nanoseconds(0), std::move(body)}); };
  const Address alone{0x7000'0000'0000}, pool{0x7100'0000'0000};
  constexpr std::uint64_t kThreads = 1U << 20U;
  add(FunctionSeen{{1}, "fill"});
  add(FunctionSeen{{2}, "sgemm"});
  add(FunctionSeen{{3}, "reads_without_saying"});
  add(AllocationSettled{{1}, alone, 8_MiB, Backing::managed, {}});
  add(AllocationSettled{{2}, pool, 64_MiB, Backing::managed, {}});
  add(LaunchShapeSeen{{1}, {1}, kThreads, {{0, alone}}});
  add(LaunchShapeSeen{{2}, {2}, 384, {{0, pool}}});
  add(LaunchShapeSeen{{3}, {1}, kThreads, {{0, pool}}});
  add(LaunchShapeSeen{{4}, {3}, 384, {{0, pool}}});
  add(LaunchShapeSeen{{5}, {2}, 768, {{0, pool}}});
  add(LaunchShapeSeen{{6}, {3}, 384, {{0, pool + 2_MiB}}});
  const ShapeCosts shapes = infer_shape_costs(events, {});
  for (const std::uint32_t shape : {2U, 3U, 5U}) EXPECT_EQ(shapes.at({shape}).touches.at(0).bytes, 8_MiB) << shape;
}

// Attention reads keys and values of a cache, each as a whole, in every step; a step appends to both at a place of its
// own. What both name in every step is where a tensor ends.
TEST(ShapeCosts, APlaceThatOneStepUsesIsNoEndOfATensor) {
  for (const bool graph : {false, true}) {
    std::vector<Event> events;
    const auto add = [&events](EventBody body) { events.push_back({Nanoseconds(0), std::move(body)}); };
    const Address cache{0x7000'0000'0000};
    add(FunctionSeen{{1}, "attention"});
    add(FunctionSeen{{2}, "append"});
    add(AllocationSettled{{1}, cache, 64_MiB, Backing::managed, {}});
    add(LaunchShapeSeen{{1}, {1}, 384, {{0, cache}, {1, cache + 32_MiB}}});
    if (graph) add(GraphSeen{{1}, {{1}}});
    for (std::uint32_t step = 0; step < 20; ++step) {
      const Bytes place = Bytes((step + 100) * 4096);
      add(LaunchShapeSeen{{2 + step}, {2}, 384, {{0, cache + place}, {1, cache + 32_MiB + place}}});
      add(Launched{{2 + step}, {}});
      graph ? add(GraphLaunched{{1}, {}}) : add(Launched{{1}, {}});
    }
    const ShapeCosts shapes = infer_shape_costs(events, {});
    ASSERT_EQ(shapes.at({1}).touches.size(), 2U);
    for (const PricedTouch& touch : shapes.at({1}).touches) EXPECT_EQ(touch.bytes, 32_MiB);
    // One that is used as seldom ends at the next.
    EXPECT_EQ(shapes.at({2}).touches.at(0).bytes, Bytes(4096));
  }
}

TEST(ShapeCosts, ATensorEndsAtTheNextPlaceThatIsUsedOftenEnough) {
  constexpr std::uint32_t kPlaces = 100;
  std::vector<Event> events;
  const auto add = [&events](EventBody body) { events.push_back({Nanoseconds(0), std::move(body)}); };
  const auto place = [](std::uint32_t i) { return Address{0x7000'0000'0000 + (std::uint64_t{i} << 20U)}; };
  const auto launches = [](std::uint32_t i) { return i % 13 == 0 ? 256 : 1 + i * i * 7 % 31; };
  add(FunctionSeen{{1}, "attention"});
  add(AllocationSettled{{1}, place(0), Bytes(std::uint64_t{kPlaces} << 20U), Backing::managed, {}});
  for (std::uint32_t i = 0; i < kPlaces; ++i) {
    add(LaunchShapeSeen{{i + 1}, {1}, 384, {{0, place(i)}}});
    for (std::uint32_t times = 0; times < launches(i); ++times) add(Launched{{i + 1}, {}});
  }
  const ShapeCosts shapes = infer_shape_costs(events, {});
  for (std::uint32_t i = 0; i < kPlaces; ++i) {
    std::uint32_t next = i + 1;
    while (next < kPlaces && launches(next) * 8 < launches(i)) ++next;
    EXPECT_EQ(shapes.at({i + 1}).touches.at(0).bytes, Bytes(std::uint64_t{next - i} << 20U)) << i;
  }
}

// The second half of a split attention is told all that the first is, and reads a few KiB of it.
TEST(ShapeCosts, WhatHbmCouldNotGiveInItsTimeAKernelDoesNotUse) {
  std::vector<Event> events = recorded();
  const CostTable costs;
  const double all = static_cast<double>((8_MiB).count()) / costs.hbm;
  for (const auto& [times_hbm, part] : {std::pair{1.2, 1.0}, {0.7, 1.0}, {0.1, 0.1}}) {
    const Nanoseconds took(static_cast<std::int64_t>(all * times_hbm * 1e9));
    events.push_back({Nanoseconds(0), KernelTimed{{4}, Nanoseconds(0), took}});
    const PricedTouch touch = infer_shape_costs(events, costs).at({4}).touches.at(0);
    EXPECT_EQ(touch.bytes, 8_MiB);
    EXPECT_NEAR(touch.reads, part, 0.01) << times_hbm;
    EXPECT_NEAR(touch.writes, 0.5 * part, 0.01) << times_hbm;
  }
}

// A tensor that fills the first of three launches of one function over a list, and goes on in both others; then another
// function over the same.
TEST(ShapeCosts, ATensorThatSuccessiveLaunchesOverListsNameIsDoneInParts) {
  std::vector<Event> events;
  const auto add = [&events](EventBody body) { events.push_back({Nanoseconds(0), std::move(body)}); };
  const auto tensor = [](std::uint32_t i) { return Address{0x7000'0000'0000 + i * (std::uint64_t{1} << 30U)}; };
  for (std::uint32_t i = 1; i <= 33; ++i) add(AllocationSettled{{i}, tensor(i), 4_MiB, Backing::managed, {}});
  add(FunctionSeen{{1}, "multi_tensor_apply"});
  add(FunctionSeen{{2}, "another"});
  for (std::uint32_t shape = 1; shape <= 4; ++shape) {
    LaunchShapeSeen seen{{shape}, {shape < 4 ? 1U : 2U}, 1024, {{0, tensor(33)}}};
    for (std::uint32_t i = 1; shape > 1 && i <= 8; ++i) seen.arguments.push_back({0, tensor((shape - 1) * 8 + i)});
    add(seen);
  }
  for (int iteration = 0; iteration < 2; ++iteration)
    for (std::uint32_t shape = 1; shape <= 4; ++shape) add(Launched{{shape}, {}});
  const ShapeCosts shapes = infer_shape_costs(events, {});
  for (std::uint32_t shape = 1; shape <= 4; ++shape) {
    for (const PricedTouch& touch : shapes.at({shape}).touches) {
      const bool in_parts = shape < 4 && touch.address == tensor(33);
      EXPECT_DOUBLE_EQ(touch.reads, in_parts ? 1.0 / 3 : 1) << shape;
      EXPECT_DOUBLE_EQ(touch.writes, in_parts ? 0.5 / 3 : 0.5) << shape;
    }
  }
}

}  // namespace
}  // namespace spillway::policy
