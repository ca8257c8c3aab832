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

  // Allocation 2 comes in at stretch 1 and leaves at 3, while 1 is away.
  static Streaming::Plan plan() {
    Streaming::Plan made;
    made.pieces = {{{{1}, {0}, 1}, 0b1001, true}, {{{2}, {0}, 1}, 0b0110, false}};
    made.starts = {0, 10, 20, 30};
    made.length = kLength;
    return made;
  }

  // Launches up to this one are heard of; the decisions that ask for marks.
  std::vector<DecisionId> launch_to(std::uint64_t last) {
    const std::size_t before = decisions_.size();
    while (launch_ < last) streaming_.launched({++launch_});
    std::vector<DecisionId> marks;
    for (std::size_t i = before; i < decisions_.size(); ++i) marks.push_back(decisions_[i].id);
    return marks;
  }
  auto pass(DecisionId mark, double seconds, DriverResult result = {}) {
    now_ = now_ + Nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    return streaming_.passed({mark, result}, now_);
  }
  // Begins, and measures as many schedules as it takes.
  void measure(double seconds) {
    streaming_.begin(plan(), {launch_});
    DecisionId mark = decisions_.back().id;
    for (int schedule = 0; schedule < 5; ++schedule) {
      ASSERT_FALSE(pass(mark, seconds) && schedule < 4) << "nothing moves while it is measured without";
      const auto marks = launch_to(launch_ + kLength.count());
      ASSERT_FALSE(marks.empty());
      if (schedule < 4) {
        ASSERT_EQ(marks.size(), 1u);
      }
      mark = marks.back();
      marks_ = marks;
    }
  }

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
  std::vector<DecisionId> marks_;  // of the first schedule with turns
  std::uint64_t launch_ = 7;
  std::uint64_t moves_ = 0;
  Nanoseconds now_;
};

TEST_F(StreamingTest, MeasuresFirstAndThenAsksAtEachStretchThatChangesSomething) {
  measure(0.1);
  EXPECT_NEAR(streaming_.seconds_without(), 0.1, 1e-9);
  ASSERT_EQ(marks_.size(), 3u) << "of four stretches nothing changes in the third";
  const auto asked = std::get<MarkProgress>(decisions_[decisions_.size() - 3].body);
  EXPECT_EQ((asked.launch.value - 7) % kLength.count(), 10u) << "before the first launch of the stretch";
  const auto turns = pass(marks_[0], 0.025);
  ASSERT_TRUE(turns);
  ASSERT_EQ(turns->out.size(), 1u);
  EXPECT_EQ(turns->out[0].allocation.value, 1u);
  ASSERT_EQ(turns->in.size(), 1u);
  EXPECT_EQ(turns->in[0].allocation.value, 2u);
}

TEST_F(StreamingTest, AMarkThatIsMissedIsMadeUpForByTheNext) {
  measure(0.1);
  // The device passed both before either was told; then only what the later one wants counts.
  const auto turns = pass(marks_[1], 0.05);
  ASSERT_TRUE(turns);
  EXPECT_TRUE(turns->out.empty() && turns->in.empty()) << "things are where stretch 3 wants them";
  EXPECT_FALSE(pass(marks_[0], 0)) << "it is none of ours any more";
}

TEST_F(StreamingTest, WithoutAGainItHasFailedAndGoesBack) {
  measure(0.1);
  ASSERT_TRUE(pass(marks_[0], 0.025));
  place({1}, Placement::host);
  place({2}, Placement::device);
  for (int schedule = 0; schedule < 5 && !streaming_.failed(); ++schedule) {
    pass(marks_.back(), 0.099);
    marks_ = launch_to(launch_ + kLength.count());
  }
  ASSERT_TRUE(streaming_.failed());
  EXPECT_NEAR(streaming_.seconds_with(), 0.099, 1e-3);
  const auto back = streaming_.end();
  ASSERT_EQ(back.out.size(), 1u);
  EXPECT_EQ(back.out[0].allocation.value, 2u);
  ASSERT_EQ(back.in.size(), 1u);
  EXPECT_EQ(back.in[0].allocation.value, 1u);
  EXPECT_FALSE(streaming_.active());
}

TEST_F(StreamingTest, WithAGainItGoesOn) {
  measure(0.1);
  for (int schedule = 0; schedule < 40; ++schedule) {
    pass(marks_.back(), 0.06);
    marks_ = launch_to(launch_ + kLength.count());
    ASSERT_FALSE(streaming_.failed()) << schedule;
  }
  EXPECT_NEAR(streaming_.seconds_with(), 0.06, 1e-9);
}

TEST_F(StreamingTest, WithoutEventsItIsNotPossible) {
  streaming_.begin(plan(), {launch_});
  EXPECT_TRUE(streaming_.possible());
  EXPECT_TRUE(pass(decisions_.back().id, 0.1, {801}));
  EXPECT_FALSE(streaming_.possible());
  EXPECT_FALSE(streaming_.active());
}

TEST_F(StreamingTest, AskedForAreOnlySoManyAtATime) {
  streaming_.begin(plan(), {launch_});
  launch_to(launch_ + 1000 * kLength.count());
  EXPECT_EQ(decisions_.size(), 32u);
  for (const Decision& decision : decisions_) EXPECT_TRUE(std::holds_alternative<MarkProgress>(decision.body));
}

TEST_F(StreamingTest, MemoryThatIsFreedIsForgotten) {
  measure(0.1);
  streaming_.freeing({2});
  residency_.remove({2});
  const auto turns = pass(marks_[0], 0.025);
  ASSERT_TRUE(turns);
  EXPECT_TRUE(turns->in.empty());
  EXPECT_EQ(turns->out.size(), 1u);
}

TEST_F(StreamingTest, ALookaheadOfZeroForbidsIt) {
  settings_.iteration_lookahead = 0;
  EXPECT_FALSE(streaming_.possible());
}

}  // namespace
}  // namespace spillway::policy
