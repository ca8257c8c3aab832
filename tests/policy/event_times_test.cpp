#include "policy/event_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::policy {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kMicro = 1000;

EventTime event(std::uint64_t launch, std::int64_t called, std::int64_t returned, std::int64_t began,
                std::int64_t took) {
  return {{launch},
          Nanoseconds(called * kMicro),
          Nanoseconds(returned * kMicro),
          Nanoseconds(began * kMicro),
          Nanoseconds(took * kMicro)};
}

KernelTimed timed(std::uint64_t launch, std::int64_t start, std::int64_t took) {
  return {{launch}, Nanoseconds(start * kMicro), Nanoseconds(took * kMicro)};
}

TEST(EventTimes, NothingMakesNothing) { EXPECT_TRUE(times_by_events({}).empty()); }

TEST(EventTimes, StartsAreByOurClockAndInOrderOfLaunch) {
  // The device's zero is our 1,000: the first launch finds its stream idle, the others wait their turn.
  const std::vector<EventTime> seen{event(9, 1120, 1125, 300, 50), event(7, 1100, 1106, 100, 200),
                                    event(8, 1110, 1115, 350, 40)};
  EXPECT_THAT(times_by_events(seen), ElementsAre(timed(7, 1100, 200), timed(8, 1350, 40), timed(9, 1300, 50)));
}

// What else the number holds is the way of the launch to the device.
TEST(EventTimes, AShortWayOfALaunchIsKept) {
  EXPECT_THAT(times_by_events(std::vector{event(1, 100, 120, 0, 25)}), ElementsAre(timed(1, 100, 25)));
}

TEST(EventTimes, ALongWayIsLeftOutUnlessTheKernelIsLonger) {
  EXPECT_TRUE(times_by_events(std::vector{event(1, 100, 121, 0, 30)}).empty());
  EXPECT_TRUE(times_by_events(std::vector{event(1, 100, 1100, 0, 3999)}).empty());
  EXPECT_THAT(times_by_events(std::vector{event(1, 100, 1100, 0, 4000)}), ElementsAre(timed(1, 100, 4000)));
}

// Reached after the call had returned: the stream was busy, and however long the call took, the time is the kernel's.
TEST(EventTimes, ALaunchThatWaitedItsTurnIsKeptHoweverLongItTook) {
  const std::vector<EventTime> seen{event(1, 100, 105, 0, 9000), event(2, 200, 5200, 9000, 30),
                                    event(3, 5300, 5310, 9030, 7)};
  EXPECT_THAT(times_by_events(seen), ElementsAre(timed(1, 100, 9000), timed(2, 9100, 30), timed(3, 9130, 7)));
}

TEST(EventTimes, NoTimeIsNone) {
  EXPECT_TRUE(times_by_events(std::vector{event(1, 100, 105, 0, 0), event(2, 110, 115, 5, -3)}).empty());
}

TEST(EventTimes, ADeviceClockThatRunsBeforeOursIsNoTrouble) {
  EXPECT_THAT(times_by_events(std::vector{event(1, 5, 6, -70, 10), event(2, 20, 22, 10, 10)}),
              ElementsAre(timed(1, 5, 10), timed(2, 85, 10)));
}

}  // namespace
}  // namespace spillway::policy
