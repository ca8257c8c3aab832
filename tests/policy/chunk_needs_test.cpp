#include "policy/chunk_needs.hpp"

#include <gtest/gtest.h>

namespace spillway::policy {
namespace {

// A program of three launches an iteration: one allocation is used by the first, the halves of another take turns in
// the second, as a caching allocator hands them out, and all of the third goes to the last.
struct TakingTurns {
  SpanMap spans;
  LaunchBook book;
  FunctionBook functions;
  Forecast forecast{14};
  LearnedCrossings learned;
  CostTable costs;
  ChunkNeeds needs;

  TakingTurns() {
    for (std::uint32_t i = 1; i <= 3; ++i) spans.add({i}, 8_MiB);
    learn(1, {{{1}, {}, 8_MiB, 0}});
    learn(2, {{{2}, {}, 8_MiB, 0}});
    learn(3, {{{2}, 4_MiB, 4_MiB, 0}});
    learn(4, {{{3}, {}, 8_MiB, 0}});
    for (std::uint32_t iteration = 0; iteration < 8; ++iteration) {
      for (const std::uint32_t shape : {1U, 2U + iteration % 2, 4U}) forecast.launched(book.site({shape}).key, {shape});
    }
  }
  void learn(std::uint32_t shape, std::vector<NamedPointer> pointers) {
    book.learn({shape}, {shape}, 384, 1, std::move(pointers), spans, {1});
  }
  void add(std::uint64_t iterations) {
    UseCrossings crossings({book, functions, learned, costs}, spans);
    for (std::uint64_t back = iterations; back-- > 0;) {
      IterationProfile profile;
      profile.build(forecast, book, spans, {forecast.launches().value - 3 * back}, LaunchCount(3), {1});
      needs.add(profile, spans, crossings);
    }
  }
};

TEST(ChunkNeeds, WhatIsUsedInEverySecondIterationIsWorthHalf) {
  TakingTurns program;
  program.add(4);
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
    EXPECT_EQ(program.needs.crossings({1}, {chunk}, {}), 1);
    EXPECT_EQ(program.needs.crossings({2}, {chunk}, {}), 0.5) << chunk;
  }
}

TEST(ChunkNeeds, OneIterationKnowsOnlyItsOwnHalf) {
  TakingTurns program;
  program.add(1);
  EXPECT_EQ(program.needs.crossings({2}, {0}, {}), 0);
  EXPECT_EQ(program.needs.crossings({2}, {2}, {}), 1);
}

TEST(ChunkNeeds, MemoryMadeOnTheWayIsMeasuredByTheIterationsItHasSeen) {
  TakingTurns program;
  program.add(4);
  // The last two iterations begin at launches 19 and 22.
  EXPECT_EQ(program.needs.crossings({3}, {0}, {18}), 2) << "four uses, in what would be two iterations";
  EXPECT_EQ(program.needs.crossings({9}, {0}, {}), 0) << "never seen";
  EXPECT_EQ(program.needs.crossings({3}, {4}, {}), 0) << "past the end";
  program.needs.clear();
  EXPECT_EQ(program.needs.crossings({3}, {0}, {}), 0);
}

}  // namespace
}  // namespace spillway::policy
