// Crossings from kernel times, and a planner that believes them.
#include "policy/crossings.hpp"

#include <gtest/gtest.h>

#include "policy/access_history.hpp"
#include "policy/planner.hpp"
#include "tests/policy/scripted_program.hpp"

namespace spillway::policy {
namespace {

constexpr LaunchKind kGemm{{1}, 4096, 64_MiB};

Nanoseconds microseconds(double count) { return Nanoseconds(static_cast<std::int64_t>(count * 1e3)); }

// Time of a kernel that computes for 100 us and whose bytes on the host cross the link so often.
Nanoseconds mapped(double crossings, Bytes on_host, const CostTable& costs) {
  return microseconds(100 + crossings * static_cast<double>(on_host.count()) / costs.link_in * 1e6);
}

TEST(LearnedCrossings, TimesBothWaysGiveTheNumber) {
  const CostTable costs;
  for (const double truth : {0.02, 1.0, 4.0, 16.0}) {
    LearnedCrossings learned;
    EXPECT_EQ(learned.of(kGemm, costs), std::nullopt);
    for (int i = 0; i < 3; ++i) {
      learned.timed(kGemm, {}, microseconds(100 + i));
      learned.timed(kGemm, 32_MiB, mapped(truth, 32_MiB, costs));
    }
    ASSERT_TRUE(learned.of(kGemm, costs));
    EXPECT_NEAR(*learned.of(kGemm, costs), truth, 0.01);
    EXPECT_EQ(learned.shortest_time(kGemm, costs), microseconds(100));
    EXPECT_EQ(learned.known(costs), 1U);
  }
}

TEST(LearnedCrossings, OneWayOrOneTimeIsNoEvidence) {
  const CostTable costs;
  LearnedCrossings learned;
  for (int i = 0; i < 9; ++i) learned.timed(kGemm, {}, microseconds(100));
  learned.timed(kGemm, 32_MiB, microseconds(900));
  EXPECT_EQ(learned.of(kGemm, costs), std::nullopt);
  learned.timed({{1}, 4096, 32_MiB}, 32_MiB, microseconds(900));  // another kind
  EXPECT_EQ(learned.of(kGemm, costs), std::nullopt);
}

// A paged cache: in one launch of two what it reads lies in HBM.
TEST(LearnedCrossings, ALaunchThatReadsAPartCountsByItsLongerTimes) {
  const CostTable costs;
  LearnedCrossings learned;
  EXPECT_EQ(learned.in_part_of(kGemm, costs), std::nullopt);
  for (int i = 0; i < 100; ++i) {
    learned.timed(kGemm, {}, microseconds(100));
    learned.timed(kGemm, 32_MiB, i % 2 == 0 ? microseconds(100) : mapped(0.25, 32_MiB, costs));
  }
  EXPECT_NEAR(*learned.of(kGemm, costs), 0, 0.001);
  EXPECT_GT(*learned.in_part_of(kGemm, costs), 0.15);
  EXPECT_LE(*learned.in_part_of(kGemm, costs), 0.25);
  // It was brought in: what it would cross on the host is remembered for hundreds of launches, and not for ever.
  for (int i = 0; i < 200; ++i) learned.timed(kGemm, 32_MiB, microseconds(100));
  EXPECT_GT(*learned.in_part_of(kGemm, costs), 0.1);
  for (int i = 0; i < 4000; ++i) learned.timed(kGemm, 32_MiB, microseconds(100));
  EXPECT_LT(*learned.in_part_of(kGemm, costs), 0.01);
}

TEST(LearnedCrossings, WhatSlowsAKernelNowAndThenDoesNotCount) {
  const CostTable costs;
  LearnedCrossings learned;
  for (int i = 0; i < 20; ++i) {
    const double slower = i % 3 == 0 ? 5.0 : 1.0;
    learned.timed(kGemm, {}, microseconds(100 * slower));
    const Bytes on_host = i % 2 == 0 ? 64_MiB : 32_MiB;
    const double time = static_cast<double>(mapped(4, on_host, costs).count()) * slower;
    learned.timed(kGemm, on_host, Nanoseconds(static_cast<std::int64_t>(time)));
  }
  EXPECT_NEAR(*learned.of(kGemm, costs), 4, 0.1);
}

TEST(LearnedCrossings, AFewBytesOnTheHostAreNoEvidence) {
  LearnedCrossings learned;
  for (int i = 0; i < 9; ++i) {
    learned.timed(kGemm, {}, microseconds(100));
    learned.timed(kGemm, 2_MiB, microseconds(190));
  }
  EXPECT_EQ(learned.of(kGemm, {}), std::nullopt);
}

// Its workspace of 16 MiB stays on the host, and it works on little of that.
TEST(LearnedCrossings, WhatIsOnTheHostInBothSaysNothing) {
  const CostTable costs;
  for (const bool less_first : {true, false}) {
    LearnedCrossings learned;
    for (int i = 0; i < 6; ++i) {
      const bool less = (i < 3) == less_first;
      learned.timed(kGemm, less ? 16_MiB : 64_MiB, less ? microseconds(100 + i) : mapped(10, 48_MiB, costs));
      if (i >= 3) continue;
      EXPECT_EQ(learned.of(kGemm, costs), std::nullopt);
      EXPECT_EQ(learned.shortest_time(kGemm, costs), std::nullopt);
    }
    ASSERT_TRUE(learned.of(kGemm, costs));
    EXPECT_NEAR(*learned.of(kGemm, costs), 10, 0.1);
    EXPECT_EQ(learned.shortest_time(kGemm, costs), microseconds(less_first ? 100 : 103));
    // Seen with nothing on the host, that is what counts.
    learned.timed(kGemm, {}, microseconds(60));
    learned.timed(kGemm, {}, microseconds(60));
    EXPECT_NEAR(*learned.of(kGemm, costs), 7.53, 0.1);
    EXPECT_EQ(learned.shortest_time(kGemm, costs), microseconds(60));
  }
}

TEST(LearnedCrossings, NeverBelowNothingNorBeyondReason) {
  LearnedCrossings faster, slower;
  for (int i = 0; i < 3; ++i) {
    faster.timed(kGemm, {}, microseconds(100));
    faster.timed(kGemm, 64_MiB, microseconds(90));
    slower.timed(kGemm, {}, microseconds(100));
    slower.timed(kGemm, 64_MiB, microseconds(1e7));
  }
  EXPECT_EQ(faster.of(kGemm, {}), 0);
  EXPECT_EQ(slower.of(kGemm, {}), 64);
}

// One function over one span, laid out as an iteration.
struct OneUse {
  SpanMap spans;
  LaunchBook book;
  FunctionBook functions;
  Forecast forecast;
  IterationProfile profile;
  explicit OneUse(std::string_view function = "sgemm_nn") {
    spans.add({1}, 64_MiB);
    functions.seen({1}, function);
    book.learn({1}, {1}, 384, 1, {{{1}, {}, 64_MiB, 0}}, spans, {1});
    for (int i = 0; i < 4; ++i) forecast.launched(book.site({1}).key, {1});
    profile.build(forecast, book, spans, forecast.launches(), LaunchCount(2), {1});
  }
  void see(AccessHistory& history, const LearnedCrossings& learned, const CostTable& costs) const {
    const LaunchKnowledge launches{book, functions, learned, costs};
    UseCrossings crossings(launches, spans);
    history.iteration(profile, launches, spans, crossings);
  }
};

TEST(LearnedCrossings, TheHistoryBelievesThemMoreThanTheName) {
  OneUse one;
  AccessHistory history;
  LearnedCrossings learned;
  const CostTable costs;
  one.see(history, learned, costs);
  const SpanId span = one.spans.at({1}, {});
  EXPECT_EQ(history.of(span).crossings, 2) << "two uses that cross once, by default";
  const auto kind = launch_kind(one.book.site({1}), one.spans);
  ASSERT_TRUE(kind);
  EXPECT_EQ(kind->bytes, 64_MiB);
  for (int i = 0; i < 2; ++i) {
    learned.timed(*kind, {}, microseconds(100));
    learned.timed(*kind, 64_MiB, mapped(8, 64_MiB, costs));
  }
  one.see(history, learned, costs);
  EXPECT_NEAR(history.of(span).crossings, 16, 0.1);
  EXPECT_NEAR(history.of(span).most_crossings, 8, 0.1);
}

// The first tensor fills a launch of its own and goes on in the next, which names eight more; then another function.
TEST(UseCrossings, ATensorThatSuccessiveLaunchesOverAListNameIsUsedOnce) {
  SpanMap spans;
  LaunchBook book;
  FunctionBook functions;
  Forecast forecast;
  for (std::uint32_t i = 1; i <= 9; ++i) spans.add({i}, 8_MiB);
  std::vector<NamedPointer> list{{{1}, {}, 8_MiB, 0}};
  book.learn({1}, {1}, 384, 1, list, spans, {1});
  book.learn({3}, {2}, 384, 1, list, spans, {1});
  for (std::uint32_t i = 2; i <= 9; ++i) list.push_back({{i}, {}, 8_MiB, 0});
  book.learn({2}, {1}, 384, 1, list, spans, {1});
  for (const std::uint32_t shape : {1U, 2U, 3U}) forecast.launched(book.site({shape}).key, {shape});
  IterationProfile profile;
  profile.build(forecast, book, spans, forecast.launches(), LaunchCount(3), {1});
  const LearnedCrossings learned;
  const CostTable costs;
  UseCrossings crossings({book, functions, learned, costs}, spans);
  EXPECT_EQ(crossings.of(profile, spans.at({1}, {})).all, 2);
  EXPECT_EQ(crossings.of(profile, spans.at({2}, {})).all, 1);
}

TEST(LearnedCrossings, TheHistoryTakesLongTimesOfWhatReadsAPart) {
  OneUse one("paged_attention");
  AccessHistory history;
  LearnedCrossings learned;
  const CostTable costs;
  const auto kind = launch_kind(one.book.site({1}), one.spans);
  ASSERT_TRUE(kind);
  for (int i = 0; i < 100; ++i) {
    learned.timed(*kind, {}, microseconds(100));
    learned.timed(*kind, 64_MiB, i % 2 == 0 ? microseconds(100) : mapped(1, 64_MiB, costs));
  }
  one.see(history, learned, costs);
  EXPECT_GT(history.of(one.spans.at({1}, {})).crossings, 1.2) << "two uses, which cross once unless it is in HBM";
}

// Twelve buffers, used once an iteration each, half of which fit. By default all are worth the same, and nothing moves.
// In truth one function reads its buffers eight times over the link; only times can tell.
struct TwoFunctions {
  static constexpr FunctionId kHungry{1};
  static constexpr FunctionId kFrugal{2};
  static constexpr Bytes kBuffer = 16_MiB;
  testing::ScriptedProgram program;
  std::vector<Address> buffers;

  TwoFunctions() : program(settings(), 512_MiB, 4_GiB) {
    program.send(FunctionSeen{kHungry, "hungry"});
    program.send(FunctionSeen{kFrugal, "frugal"});
    for (int i = 0; i < 12; ++i) buffers.push_back(program.allocate(kBuffer));
    program.finish_all();
  }
  static Settings settings() {
    Settings given;
    given.device_budget = SizeOrShare{kBuffer * 6};
    return given;
  }
  // One of those that fit, and those that came last.
  static bool hungry(std::size_t buffer) { return buffer == 5 || buffer > 6; }

  void run(int iterations, bool timed) {
    const CostTable costs;
    for (int iteration = 0; iteration < iterations; ++iteration) {
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        program.launch({buffers[i]}, hungry(i) ? kHungry : kFrugal);
        program.finish_all();
        if (!timed) continue;
        const Bytes on_host = kBuffer - program.on_card(buffers[i]);
        program.send(
            KernelTimed{program.engine().launches(), Nanoseconds(1), mapped(hungry(i) ? 8 : 1, on_host, costs)});
      }
    }
  }
  [[nodiscard]] int hungry_on_card() const {
    int count = 0;
    for (std::size_t i = 0; i < buffers.size(); ++i)
      count += hungry(i) && program.on_card(buffers[i]) == kBuffer ? 1 : 0;
    return count;
  }
};

TEST(LearnedCrossings, DecideWhatThePlannerKeeps) {
  TwoFunctions without;
  without.run(400, false);
  EXPECT_EQ(without.hungry_on_card(), 1) << "as they came";
  TwoFunctions with;
  with.run(400, true);
  EXPECT_GE(with.hungry_on_card(), 5) << "of six";
  EXPECT_EQ(with.program.engine().check_invariants(), "");
}

// A time that comes when its memory has moved on says nothing: here it would make every frugal kernel seem hungry.
TEST(LearnedCrossings, TimesThatComeAfterAMoveAreNoEvidence) {
  TwoFunctions late;
  late.run(200, false);
  const auto resident = [&late](std::size_t buffer) {
    return late.program.on_card(late.buffers[buffer]) == TwoFunctions::kBuffer;
  };
  std::vector<bool> before;
  for (std::size_t i = 0; i < 12; ++i) before.push_back(resident(i));
  const std::uint64_t last = late.program.engine().launches().value;
  late.program.allocate(TwoFunctions::kBuffer * 2, AllocationKind::stream_ordered);  // something has to leave
  late.program.finish_all();
  int left = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 12; ++i) {
      if (!before[i] || TwoFunctions::hungry(i)) continue;
      left += resident(i) ? 0 : 1;
      const Nanoseconds time = resident(i) ? microseconds(100) : microseconds(50'000);
      late.program.send(KernelTimed{{last - 11 + i}, Nanoseconds(1), time});
    }
  }
  ASSERT_GT(left, 0) << "this test shows nothing";
  std::vector<bool> now;
  for (std::size_t i = 0; i < 12; ++i) now.push_back(resident(i));
  late.run(200, false);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(resident(i), now[i]) << i;
}

}  // namespace
}  // namespace spillway::policy
