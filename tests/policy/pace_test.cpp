// What a round takes on the device: by marks while a program can be ahead, by its launches afterwards.
#include "policy/modes/pace.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "policy/rule_matcher.hpp"

namespace spillway::policy {
namespace {

constexpr LaunchCount kRoundOfPace = LaunchCount(64);
Nanoseconds after_milliseconds(std::int64_t count) { return Nanoseconds(count * 1'000'000); }

class PaceTest : public ::testing::Test {
 protected:
  PaceTest() { writer_.into(&decisions_); }

  std::optional<Nanoseconds> pass(std::uint64_t launch, std::int64_t at, std::int32_t code = 0) {
    return pace_.passed({{launch}, {code}}, after_milliseconds(at));
  }
  // As asked for so far.
  std::vector<std::uint64_t> asked() const {
    std::vector<std::uint64_t> all;
    for (const Decision& decision : decisions_) all.push_back(std::get<MarkProgress>(decision.body).every);
    return all;
  }

  Settings settings_;
  AllocationMap allocations_;
  Residency residency_;
  RuleMatcher rules_{{}};
  CostTable costs_;
  Books books_{settings_, allocations_, residency_, [](DeviceIndex) { return 0_MiB; }, [] { return 0_MiB; },
               rules_,    costs_};
  DecisionWriter writer_{books_};
  std::vector<Decision> decisions_;
  Pace pace_{writer_};
};

TEST_F(PaceTest, MarksTellWhatTheDeviceTakesWhileTheProgramIsAhead) {
  pace_.begin({100}, {}, LaunchCount(100));
  pace_.want_marks(kRoundOfPace);
  pace_.want_marks(kRoundOfPace);
  EXPECT_EQ(asked(), std::vector<std::uint64_t>{64}) << "once";
  for (int round = 1; round <= 10; ++round)
    EXPECT_FALSE(pace_.enqueued(after_milliseconds(round), LaunchCount(100 + 64)));
  EXPECT_FALSE(pass(101, 50)) << "the first is where it is measured from";
  EXPECT_EQ(pass(165, 150), after_milliseconds(100));
  EXPECT_EQ(pass(165 + 128, 550), after_milliseconds(200)) << "of two rounds each";
}

TEST_F(PaceTest, WhatIsShortIsMeasuredOverSomeRounds) {
  pace_.begin({100}, {}, LaunchCount(100));
  pace_.want_marks(kRoundOfPace);
  pass(101, 0);
  EXPECT_FALSE(pass(165, 31)) << "a mark may be a millisecond late";
  EXPECT_FALSE(pass(229, 60));
  EXPECT_FALSE(pass(293, 91));
  EXPECT_EQ(pass(357, 120), after_milliseconds(30));
}

TEST_F(PaceTest, LessThanARoundAndMarksFromBeforeSayNothing) {
  pace_.begin({100}, {}, LaunchCount(100));
  pace_.want_marks(kRoundOfPace);
  EXPECT_FALSE(pass(100, 10)) << "of the launch with which it was found";
  EXPECT_FALSE(pass(110, 100));
  EXPECT_FALSE(pass(90, 200));
  EXPECT_FALSE(pass(140, 300));
  EXPECT_EQ(pass(174, 500), after_milliseconds(400));
}

TEST_F(PaceTest, LaunchesTellOnceNoProgramCanBeAhead) {
  pace_.begin({100}, {}, LaunchCount(100));
  pace_.want_marks(kRoundOfPace);
  EXPECT_FALSE(pace_.enqueued(after_milliseconds(10), LaunchCount(100 + 1023)));
  EXPECT_FALSE(pace_.told_by_launches(LaunchCount(100 + 1023)));
  EXPECT_EQ(pace_.enqueued(after_milliseconds(40), LaunchCount(100 + 1024)), after_milliseconds(30));
  EXPECT_TRUE(pace_.told_by_launches(LaunchCount(100 + 1024)));
  EXPECT_FALSE(pace_.told_by_launches(LaunchCount(100 + 1024), LaunchCount(1)));
  pace_.want_marks(kRoundOfPace);
  EXPECT_EQ(asked(), (std::vector<std::uint64_t>{64, 0})) << "and marks are over";
  EXPECT_FALSE(pass(1200, 100));
  EXPECT_FALSE(pass(1300, 200));
  pace_.begin({1400}, after_milliseconds(300), LaunchCount(1400));
  EXPECT_FALSE(pace_.enqueued(after_milliseconds(310), LaunchCount(1464))) << "until another iteration is found";
}

TEST_F(PaceTest, NobodyAsksNobodyIsTold) {
  pace_.begin({100}, {}, LaunchCount(100));
  EXPECT_FALSE(pass(101, 50));
  EXPECT_FALSE(pass(165, 150));
  pace_.end_marks();
  EXPECT_TRUE(asked().empty());
  pace_.want_marks(kRoundOfPace);
  pass(200, 200);
  pace_.end_marks();
  EXPECT_FALSE(pass(264, 300)) << "somebody else asks for these";
  pace_.want_marks(kRoundOfPace);
  EXPECT_FALSE(pass(0, 400, 801)) << "refused";
  EXPECT_FALSE(pass(328, 500)) << "and measured from here";
  EXPECT_EQ(pass(392, 600), after_milliseconds(100));
}

}  // namespace
}  // namespace spillway::policy
