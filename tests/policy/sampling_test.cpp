#include "policy/sampling.hpp"

#include <gtest/gtest.h>

namespace spillway::policy {
namespace {

using Wish = SampleClock::Wish;

// Launches that a clock asked in steps of `step` would time, of `launches`.
std::uint64_t timed(SampleClock clock, std::uint64_t launches, std::uint64_t step, LaunchCount iteration) {
  std::uint64_t count = 0;
  std::uint64_t opened = 0;
  for (std::uint64_t now = 0; now <= launches; now += step) {
    const Wish wish = clock.ask({now}, iteration);
    if (wish == Wish::open) opened = now;
    if (wish == Wish::close) count += now - opened;
  }
  return count;
}

TEST(SampleClock, TheShareOfLaunchesIsTheOneAskedFor) {
  for (const double percent : {1.0, 5.0, 20.0, 50.0}) {
    for (const std::uint64_t iteration : {0U, 100U, 1700U, 40000U}) {
      const double share =
          static_cast<double>(timed(SampleClock(percent), 4'000'000, 16, LaunchCount(iteration))) / 4e6;
      EXPECT_NEAR(share, percent / 100, 0.2 * percent / 100) << iteration;
    }
  }
}

TEST(SampleClock, NothingIsTimedAtZeroAndAllAtAHundred) {
  EXPECT_EQ(timed(SampleClock(0), 1'000'000, 16, {}), 0U);
  EXPECT_GT(timed(SampleClock(100), 1'000'000, 16, {}), 950'000U);
}

TEST(SampleClock, AWindowHoldsWholeIterations) {
  EXPECT_EQ(window_length(LaunchCount(100)), LaunchCount(600));
  EXPECT_EQ(window_length(LaunchCount(1700)), LaunchCount(1700));
  EXPECT_EQ(window_length(LaunchCount(1'000'000)), LaunchCount(SampleClock::kLongest));
  SampleClock clock(5);
  EXPECT_EQ(clock.ask({100}, LaunchCount(1700)), Wish::nothing);
  EXPECT_EQ(clock.ask({300}, LaunchCount(1700)), Wish::open);
  EXPECT_EQ(clock.ask({1999}, LaunchCount(1700)), Wish::nothing);
  EXPECT_EQ(clock.ask({2000}, LaunchCount(1700)), Wish::close);
}

TEST(SampleClock, AWindowThatCannotBeHadIsAskedForAgainAtTheUsualDistance) {
  SampleClock clock(50);
  EXPECT_EQ(clock.ask({300}, LaunchCount(600)), Wish::open);
  clock.give_up({300});
  EXPECT_EQ(clock.ask({800}, LaunchCount(600)), Wish::nothing);
  EXPECT_EQ(clock.ask({900}, LaunchCount(600)), Wish::open);
}

}  // namespace
}  // namespace spillway::policy
