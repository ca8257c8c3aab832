// Following a schedule by marks: what is asked when, what is done when the device gets there, and when it ends.
#include <gtest/gtest.h>

#include "policy/allocation_map.hpp"
#include "policy/modes/streaming.hpp"
#include "policy/residency.hpp"
#include "policy/rule_matcher.hpp"

namespace spillway::policy {
namespace {

constexpr LaunchCount kLength = LaunchCount(40);  // of a schedule of four stretches

class StreamingTest : public ::testing::Test {
 protected:
  StreamingTest() {
    writer_.into(&decisions_);
    for (std::uint32_t id = 1; id <= 2; ++id) {
      residency_.add({id}, {0}, kChunk);
      place({id}, id == 1 ? Placement::device : Placement::host);
    }
  }

  void place(AllocationId id, Placement to) {
    const DecisionId move{1000 + ++moves_};
    ASSERT_TRUE(residency_.open_move(move, {id, {0}, 1}, to));
    ASSERT_TRUE(residency_.finish_move(move, MoveOutcome::done));
  }

  // There is room for one: allocation 2 is used in stretch 2, and 1 in 0.
  static Streaming::Plan plan() {
    Streaming::Plan made;
    made.pieces = {{{{1}, {0}, 1}, {kChunk, 0b0001, 0b0001}, true}, {{{2}, {0}, 1}, {kChunk, 0b0100, 0b0100}, false}};
    made.starts = {0, 10, 20, 30};
    made.seconds = {0.025, 0.025, 0.025, 0.025};
    made.length = kLength;
    made.limit = kChunk;
    return made;
  }

  auto pass(std::uint64_t launch, double seconds, DriverResult result = {}) {
    now_ = now_ + Nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    return streaming_.passed({{launch}, result}, now_);
  }
  static FinishedMove out_of_1() { return {{{1}, {0}, 1}, Placement::device, Placement::host, kChunk}; }
  [[nodiscard]] std::vector<std::uint64_t> asked() const {
    std::vector<std::uint64_t> all;
    for (const Decision& decision : decisions_) all.push_back(std::get<MarkProgress>(decision.body).every);
    return all;
  }
  // Begins, and measures as many schedules as it takes: four marks in each.
  void measure(double seconds) {
    streaming_.begin(plan(), {kOrigin});
    for (; asked().size() < 2; launch_ += 10) {
      const auto turns = pass(launch_, seconds / 4);
      if (asked().size() < 2) {
        ASSERT_FALSE(turns) << "nothing moves meanwhile";
      }
    }
    ASSERT_LT(launch_, kOrigin + 6 * kLength.count());
  }
  // So many schedules, from where the device is.
  void go_on(int schedules, double seconds) {
    for (int mark = 0; mark < 4 * schedules && streaming_.phase() != Streaming::Phase::failed; ++mark, launch_ += 10)
      pass(launch_, seconds / 4);
  }
  // The next launch that begins this stretch.
  std::uint64_t next(std::uint32_t stretch) const {
    std::uint64_t launch = launch_;
    while ((launch - kOrigin) % kLength.count() != stretch * 10) ++launch;
    return launch;
  }

  static constexpr std::uint64_t kOrigin = 7;
  Settings settings_;
  AllocationMap allocations_;
  Residency residency_;
  RuleMatcher rules_{{}};
  CostTable costs_;
  Books books_{settings_, allocations_, residency_, [](DeviceIndex) { return 64_MiB; }, [] { return 64_MiB; },
               rules_,    costs_};
  DecisionWriter writer_{books_};
  Streaming streaming_{books_, writer_};
  std::vector<Decision> decisions_;
  std::uint64_t launch_ = kOrigin;  // that the device does next
  std::uint64_t moves_ = 0;
  Nanoseconds now_;
};

TEST_F(StreamingTest, MeasuresFirstAndThenTakesTurnsWhereTheDeviceIs) {
  measure(0.1);
  EXPECT_NEAR(streaming_.seconds_without(), 0.1, 0.003);
  EXPECT_EQ(asked(), (std::vector<std::uint64_t>{1, 1})) << "40 launches, of a schedule of four stretches";
  const std::uint64_t second = next(1);
  EXPECT_FALSE(pass(second - 1, 0.01)) << "still the stretch before";
  const auto turns = pass(second, 0.01);
  ASSERT_TRUE(turns);
  ASSERT_EQ(turns->out.size(), 1u);
  EXPECT_EQ(turns->out[0].allocation.value, 1u);
  EXPECT_TRUE(turns->in.empty()) << "there is no room yet";
  EXPECT_FALSE(pass(second + 1, 0.001)) << "once a stretch";
  place({1}, Placement::host);
  const auto next = streaming_.moved(out_of_1(), MoveOutcome::done, now_);
  ASSERT_TRUE(next) << "and whenever something has moved";
  EXPECT_TRUE(next->out.empty());
  ASSERT_EQ(next->in.size(), 1u);
  EXPECT_EQ(next->in[0].allocation.value, 2u);
  FinishedMove other = out_of_1();
  other.range.allocation = {9};
  EXPECT_FALSE(streaming_.moved(other, MoveOutcome::done, now_)) << "what takes no turns says nothing";
}

// Its second stretch takes longer than the others together.
TEST_F(StreamingTest, WholeSchedulesAreMeasuredAndOfLongOnesOneIsEnough) {
  const auto marks_until_measured = [&](double second, double others) {
    streaming_.begin(plan(), {launch_});
    const std::uint64_t origin = launch_;
    const std::size_t before = asked().size();
    int marks = 0;
    for (; asked().size() == before && marks < 40; ++marks, launch_ += 10)
      pass(launch_, (launch_ - origin) % kLength.count() == 10 ? second : others);
    return marks;
  };
  EXPECT_EQ(marks_until_measured(2, 0.2), 1 + 4);
  EXPECT_NEAR(streaming_.seconds_without(), 2.6, 0.001);
  EXPECT_EQ(marks_until_measured(0.5, 0.1), 1 + 8) << "a second is over within the second schedule";
  EXPECT_NEAR(streaming_.seconds_without(), 0.8, 0.001);
}

TEST_F(StreamingTest, LongSchedulesHaveMarksAtAFractionOfTheirLaunches) {
  Streaming::Plan longer = plan();
  for (std::uint32_t& start : longer.starts) start *= 40;
  longer.length = LaunchCount(kLength.count() * 40);
  streaming_.begin(longer, {kOrigin});
  EXPECT_EQ(asked(), std::vector<std::uint64_t>{50});
  for (; asked().size() < 2; launch_ += 50) pass(launch_, 0.01);
  EXPECT_EQ(asked().back(), 50u) << "eight in each of four stretches of 400 launches";
}

TEST_F(StreamingTest, WhatAMarkMissedIsMadeUpForByTheNext) {
  measure(0.1);
  const auto turns = pass(next(3), 0.05);
  ASSERT_TRUE(turns);
  EXPECT_TRUE(turns->out.empty() && turns->in.empty()) << "things are where stretch 3 wants them";
  const auto later = pass(next(1) + kLength.count(), 0.05);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->out.size(), 1u) << "what could have left at stretch 1 leaves now";
}

TEST_F(StreamingTest, LaunchesMoreThanForecastDoNotAddUp) {
  measure(0.1);
  const std::uint64_t again = next(0) + 5;
  pass(next(3), 0.01);
  streaming_.begins_again({again});
  EXPECT_TRUE(pass(again - 1, 0.01)) << "before, the old count holds: stretch 0";
  EXPECT_FALSE(pass(again + 9, 0.01)) << "still stretch 0";
  const auto turns = pass(again + 10, 0.01);
  ASSERT_TRUE(turns);
  EXPECT_EQ(turns->out.size(), 1u) << "stretch 1, of the new count";
}

TEST_F(StreamingTest, WithoutAGainItHasFailedAndGoesBack) {
  measure(0.1);
  place({1}, Placement::host);
  place({2}, Placement::device);
  go_on(12, 0.099);
  ASSERT_EQ(streaming_.phase(), Streaming::Phase::failed);
  EXPECT_NEAR(streaming_.seconds_with(), 0.099, 0.003);
  const auto back = streaming_.end();
  ASSERT_EQ(back.out.size(), 1u);
  EXPECT_EQ(back.out[0].allocation.value, 2u);
  ASSERT_EQ(back.in.size(), 1u);
  EXPECT_EQ(back.in[0].allocation.value, 1u);
  EXPECT_FALSE(streaming_.active());
  EXPECT_EQ(asked().back(), 0u) << "no more marks";
}

TEST_F(StreamingTest, WithAGainItGoesOnUntilThatIsGone) {
  measure(0.1);
  go_on(40, 0.06);
  EXPECT_EQ(streaming_.phase(), Streaming::Phase::kept);
  EXPECT_NEAR(streaming_.seconds_with(), 0.06, 0.003);
  go_on(40, 0.12);
  EXPECT_EQ(streaming_.phase(), Streaming::Phase::failed);
}

TEST_F(StreamingTest, WithoutEventsItIsNotPossible) {
  streaming_.begin(plan(), {launch_});
  EXPECT_TRUE(streaming_.possible());
  EXPECT_TRUE(pass(0, 0.1, {801}));
  EXPECT_FALSE(streaming_.possible());
  EXPECT_FALSE(streaming_.active());
  EXPECT_EQ(asked().size(), 1u) << "who gives no marks is not asked for anything more";
}

TEST_F(StreamingTest, LaunchesFromBeforeItBeganSayNothing) {
  streaming_.begin(plan(), {1000});
  for (std::uint64_t launch = 0; launch < 1000; launch += 10) EXPECT_FALSE(pass(launch, 0.1));
  EXPECT_EQ(asked().size(), 1u) << "nothing was measured";
}

// Else it would be refused again, for ever.
TEST_F(StreamingTest, WhatIsRefusedIsThoughtOfAgainOnlyInTheNextStretch) {
  measure(0.1);
  const auto turns = pass(next(1), 0.025);
  ASSERT_TRUE(turns);
  ASSERT_EQ(turns->out.size(), 1u);
  for (const MoveOutcome outcome : {MoveOutcome::cancelled, MoveOutcome::failed}) {
    EXPECT_FALSE(streaming_.moved(out_of_1(), outcome, now_));
  }
  pass(next(3), 0.05);
  const auto again = pass(next(1) + kLength.count(), 0.05);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->out.size(), 1u);
}

TEST_F(StreamingTest, MemoryThatIsFreedIsForgotten) {
  measure(0.1);
  streaming_.freeing({2});
  residency_.remove({2});
  const auto turns = pass(next(1), 0.025);
  ASSERT_TRUE(turns);
  EXPECT_TRUE(turns->in.empty() && turns->out.empty()) << "nothing needs the room of the other";
}

TEST_F(StreamingTest, WithNothingLeftThereAreNoMoreMarks) {
  measure(0.1);
  streaming_.freeing({1});
  EXPECT_NE(asked().back(), 0u);
  streaming_.freeing({2});
  EXPECT_FALSE(streaming_.active());
  EXPECT_EQ(asked().back(), 0u);
}

TEST_F(StreamingTest, ALookaheadOfZeroForbidsIt) {
  settings_.iteration_lookahead = 0;
  EXPECT_FALSE(streaming_.possible());
}

}  // namespace
}  // namespace spillway::policy
