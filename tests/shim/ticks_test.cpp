#include "shim/ticks.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace spillway::shim {
namespace {

TEST(Ticks, WithoutACounterTheyAreTheClock) {
  TickClock clock(false);
  const std::int64_t moment = ticks(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  clock.synchronize();
  EXPECT_EQ(clock.monotonic(moment), moment);
}

// Between two readings of the clock, however fast the counter runs.
TEST(Ticks, OfTheCounterBecomeTimesInTheirOrder) {
  const bool counter = counter_is_even();
  const std::int64_t before = now();
  TickClock clock(counter);
  std::int64_t moments[3];
  for (std::int64_t& moment : moments) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    moment = ticks(counter);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  clock.synchronize();
  const std::int64_t after = now();
  std::int64_t last = before;
  for (const std::int64_t moment : moments) {
    EXPECT_GT(clock.monotonic(moment), last);
    last = clock.monotonic(moment);
  }
  EXPECT_LT(last, after);
}

TEST(Ticks, OfTheFutureAreNow) {
  const bool counter = counter_is_even();
  TickClock clock(counter);
  clock.synchronize();
  const std::int64_t latest = clock.monotonic(ticks(counter) + 1'000'000'000'000);
  EXPECT_LE(latest, now());
}

}  // namespace
}  // namespace spillway::shim
