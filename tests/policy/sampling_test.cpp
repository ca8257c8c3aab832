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
    const Wish wish = clock.ask({now}, iteration, {});
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
  EXPECT_EQ(clock.ask({100}, LaunchCount(1700), {}), Wish::nothing);
  EXPECT_EQ(clock.ask({300}, LaunchCount(1700), {}), Wish::open);
  EXPECT_EQ(clock.ask({1999}, LaunchCount(1700), {}), Wish::nothing);
  EXPECT_EQ(clock.ask({2000}, LaunchCount(1700), {}), Wish::close);
}

TEST(SampleClock, WindowsThatFollowAtOnceGrow) {
  SampleClock clock(100);
  std::uint64_t now = SampleClock::kFirst;
  for (const std::uint64_t length : {1700U, 3400U, 6800U, 13600U, 27200U, 27200U}) {  // whole iterations
    ASSERT_EQ(clock.ask({now}, LaunchCount(1700), {}), Wish::open);
    EXPECT_EQ(clock.length(), LaunchCount(length));
    EXPECT_EQ(clock.ask({now + length - 1}, LaunchCount(1700), {}), Wish::nothing);
    ASSERT_EQ(clock.ask({now += length}, LaunchCount(1700), {}), Wish::close);
    clock.switched(true);
  }
  clock.switched(false);
  EXPECT_EQ(clock.ask({now}, LaunchCount(1700), {}), Wish::open);
  EXPECT_EQ(clock.length(), LaunchCount(1700));
}

// Killed, a process loses the window that is open.
TEST(SampleClock, AGrownWindowOfASlowProgramEndsAfterASecond) {
  SampleClock clock(100);
  std::uint64_t launches = SampleClock::kFirst;
  Nanoseconds now;
  const auto ask = [&] { return clock.ask({launches}, LaunchCount(1700), now); };
  for (const std::uint64_t length : {1700U, 3400U, 6800U}) {
    ASSERT_EQ(ask(), Wish::open);
    EXPECT_EQ(clock.length(), LaunchCount(length));
    launches += 1699;
    now = now + Nanoseconds(999'999'999);
    EXPECT_EQ(ask(), Wish::nothing);
    now = now + Nanoseconds(60'000'000'000);
    EXPECT_EQ(ask(), Wish::nothing) << "an iteration it has";
    ++launches;
    ASSERT_EQ(ask(), Wish::close);
    EXPECT_EQ(clock.length(), LaunchCount(1700));
    clock.switched(true);
  }
}

TEST(SampleClock, AWindowThatWasNotSwitchedDoesNotGrowAndNeitherDoOthers) {
  for (const double percent : {5.0, 50.0, 100.0}) {
    SampleClock clock(percent);
    std::uint64_t now = 0;
    for (int window = 0; window < 5; ++window) {
      while (clock.ask({now}, LaunchCount(1700), {}) != Wish::open) now += 100;
      EXPECT_EQ(clock.length(), LaunchCount(1700)) << percent;
      while (clock.ask({now}, LaunchCount(1700), {}) != Wish::close) now += 100;
      if (percent < 100) clock.switched(true);
    }
  }
}

TEST(SampleClock, AWindowThatCannotBeHadIsAskedForAgainAtTheUsualDistance) {
  SampleClock clock(50);
  EXPECT_EQ(clock.ask({300}, LaunchCount(600), {}), Wish::open);
  clock.give_up({300});
  EXPECT_EQ(clock.ask({800}, LaunchCount(600), {}), Wish::nothing);
  EXPECT_EQ(clock.ask({900}, LaunchCount(600), {}), Wish::open);
}

}  // namespace
}  // namespace spillway::policy
