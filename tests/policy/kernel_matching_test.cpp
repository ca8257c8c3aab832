#include "policy/kernel_matching.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace spillway::policy {
namespace {

// One launch a microsecond; recording is on from 100 to 200.
constexpr WatchMarks kMarks{Nanoseconds(100), Nanoseconds(110), Nanoseconds(190), Nanoseconds(200)};

KernelKey key(std::uint64_t function) { return kernel_key(name_key("kernel"), function); }

struct Program {
  std::vector<WatchedLaunch> launches;
  std::vector<SeenKernel> kernels;

  // Shape and key may differ: one function with other pointers is another shape.
  void launch(std::int64_t time, std::uint64_t function, std::uint32_t shape, std::uint32_t stream = 1) {
    launches.push_back({{launches.size() + 1}, {shape}, {stream}, key(function), Nanoseconds(time), Recorded::no});
  }
  // What the profiler has of a launch.
  void record(std::size_t index, std::uint64_t device_stream = 7) {
    const WatchedLaunch& launch = launches[index];
    const auto number = static_cast<std::int64_t>(launch.launch.value);
    kernels.push_back({{device_stream}, launch.launch.value * 3, launch.key, launch.time, Nanoseconds(number)});
  }
  KernelMatch match() {
    judge_launches(launches, kMarks);
    return match_kernels(launches, kernels);
  }
};

TEST(KernelMatching, LaunchesBesideTheMarksAreUncertain) {
  Program program;
  for (const std::int64_t time : {80, 90, 105, 120, 130, 180, 195, 210, 220}) program.launch(time, 1, 1);
  judge_launches(program.launches, kMarks);
  std::vector<std::pair<std::int64_t, Recorded>> judged;
  for (const WatchedLaunch& launch : program.launches) judged.emplace_back(launch.time.count(), launch.recorded);
  using enum Recorded;
  EXPECT_EQ(judged, (std::vector<std::pair<std::int64_t, Recorded>>{{90, perhaps},
                                                                    {105, perhaps},
                                                                    {120, perhaps},
                                                                    {130, certainly},
                                                                    {180, perhaps},
                                                                    {195, perhaps},
                                                                    {210, perhaps}}));
}

TEST(KernelMatching, EachRecordFindsItsLaunchWhateverTheEdgesHeld) {
  for (std::size_t first = 0; first < 3; ++first) {
    for (std::size_t last = 8; last < 11; ++last) {
      Program program;
      // 90, 105 and 120 may be recorded, and 180, 195, 210.
      const std::int64_t times[] = {90, 105, 120, 130, 135, 140, 150, 160, 180, 195, 210};
      for (std::uint32_t i = 0; i < 11; ++i) program.launch(times[i], i % 4 + i, i);
      for (std::size_t i = first; i <= last; ++i) program.record(i);
      const KernelMatch match = program.match();
      ASSERT_EQ(match.times.size(), last - first + 1);
      EXPECT_TRUE(match.complete());
      for (const KernelTimed& timed : match.times) {
        EXPECT_EQ(timed.duration.count(), static_cast<std::int64_t>(timed.launch.value));
      }
    }
  }
}

TEST(KernelMatching, ALostRecordInTheMiddleThrowsTheLaneAway) {
  Program program;
  for (std::uint32_t i = 0; i < 60; ++i) program.launch(115 + i, i % 5, i % 5);
  for (std::size_t i = 0; i < 60; ++i) {
    if (i != 31) program.record(i);
  }
  const KernelMatch match = program.match();
  EXPECT_TRUE(match.times.empty());
  EXPECT_EQ(match.lost, 59U);
  EXPECT_FALSE(match.complete());
}

// Records that are still to come look the same.
TEST(KernelMatching, ALostTailThrowsTheLaneAway) {
  Program program;
  for (std::uint32_t i = 0; i < 60; ++i) program.launch(115 + i, i % 5, i % 5);
  for (std::size_t i = 0; i < 50; ++i) program.record(i);
  EXPECT_TRUE(program.match().times.empty());
}

TEST(KernelMatching, AStrangersKernelThrowsTheLaneAway) {
  Program program;
  for (std::uint32_t i = 0; i < 60; ++i) program.launch(115 + i, i % 5, i % 5);
  for (std::size_t i = 0; i < 60; ++i) program.record(i);
  program.kernels.push_back({{7}, 100, key(99), {}, Nanoseconds(5)});
  EXPECT_TRUE(program.match().times.empty());
}

// The same kernel over and over, with other pointers each time: one off would fit as well.
TEST(KernelMatching, WhatFitsInTwoWaysIsBelievedOnlyIfBothSayTheSame) {
  for (const bool same_pointers : {true, false}) {
    Program program;
    for (std::uint32_t i = 0; i < 60; ++i) program.launch(95 + i * 2, 1, same_pointers ? 1 : i);
    for (std::size_t i = 4; i < 54; ++i) program.record(i);
    const KernelMatch match = program.match();
    EXPECT_EQ(match.times.size(), same_pointers ? 50U : 0U);
    EXPECT_EQ(match.lost, same_pointers ? 0U : 50U);
  }
}

TEST(KernelMatching, StreamsAreToldApartAndALostOneCostsOnlyItself) {
  Program program;
  for (std::uint32_t i = 0; i < 60; ++i) program.launch(115 + i, i % 7 + i % 2 * 50, i, i % 2 + 1);
  for (std::size_t i = 0; i < 60; ++i) {
    if (i != 30) program.record(i, i % 2 + 10);
  }
  const KernelMatch match = program.match();
  EXPECT_EQ(match.times.size(), 30U);
  for (const KernelTimed& timed : match.times) EXPECT_EQ(timed.launch.value % 2, 0U);
}

TEST(KernelMatching, StreamsThatLookAlikeAreNotBelieved) {
  Program program;
  for (std::uint32_t i = 0; i < 60; ++i) program.launch(115 + i, i / 2 % 7, i, i % 2 + 1);
  for (std::size_t i = 0; i < 60; ++i) program.record(i, i % 2 + 10);
  const KernelMatch match = program.match();
  EXPECT_TRUE(match.times.empty());
  EXPECT_EQ(match.lost, 60U);
}

TEST(KernelMatching, GraphsAreALaneOfTheirOwn) {
  Program program;
  for (std::uint32_t i = 0; i < 40; ++i) {
    program.launch(115 + i, 1 + i % 3, i, 1);
    if (i % 4 != 0) continue;
    program.launches.back().stream = kGraphLane;
    program.launches.back().key = graph_key(i % 8);
  }
  for (std::size_t i = 0; i < 40; ++i) program.record(i, i % 4 == 0 ? kGraphDeviceLane.value : 7);
  EXPECT_EQ(program.match().times.size(), 40U);
}

TEST(KernelMatching, ARecordWithoutATimeKeepsItsPlaceAndGivesNone) {
  Program program;
  for (std::uint32_t i = 0; i < 60; ++i) program.launch(115 + i, i % 5, i % 5);
  for (std::size_t i = 0; i < 60; ++i) program.record(i);
  program.kernels[20].duration = {};
  const KernelMatch match = program.match();
  EXPECT_EQ(match.times.size(), 59U);
  EXPECT_TRUE(match.complete());
}

// Recording begins and ends somewhere within the calls that switch it: a time is never given to a launch of another
// shape, however few kernels the program has.
TEST(KernelMatching, NeverAttributesWrongly) {
  std::mt19937 random(20261129);
  const auto below = [&random](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  std::size_t given = 0;
  std::size_t lost = 0;
  for (int round = 0; round < 3000; ++round) {
    Program program;
    const std::uint32_t functions = 1 + below(6);
    const std::uint32_t streams = 1 + below(3);
    for (std::uint32_t i = 0; i < 80; ++i) {
      const std::uint32_t function = below(functions);
      program.launch(80 + i * 2, function, function * 8 + below(1 + below(2)), 1 + below(streams));
    }
    const Nanoseconds first(90 + below(22));
    const Nanoseconds last(188 + below(22));
    std::vector<WatchedLaunch> judged = program.launches;
    judge_launches(judged, kMarks);
    for (const WatchedLaunch& launch : judged) {
      const bool on = launch.time >= first && launch.time <= last;
      if (on || launch.recorded == Recorded::certainly) {
        program.record(launch.launch.value - 1, launch.stream.value + 20);
      }
    }
    const std::vector<WatchedLaunch> all = program.launches;
    const KernelMatch match = program.match();
    lost += match.lost;
    for (const KernelTimed& timed : match.times) {
      ++given;
      const auto truth = static_cast<std::size_t>(timed.duration.count()) - 1;
      ASSERT_EQ(all[timed.launch.value - 1].shape, all[truth].shape) << "round " << round;
    }
  }
  EXPECT_GT(given, 50'000U) << "this test shows nothing";
  EXPECT_GT(lost, 1'000U) << "nor this";
}

}  // namespace
}  // namespace spillway::policy
