#include "policy/bounds.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace spillway::policy {
namespace {

BoundChunk chunk(double bytes, bool written, std::vector<BoundUse> uses) { return {bytes, written, std::move(uses)}; }

TEST(Bounds, NothingCrossesWhenEverythingFits) {
  const std::vector<BoundChunk> chunks{chunk(10, true, {{0, 10, 10}, {5, 10, 0}}), chunk(10, false, {{2, 160, 0}})};
  EXPECT_EQ(least_traffic(chunks, 20, 10, Traffic::both), 0);
}

TEST(Bounds, OfAlikeChunksTheShareThatDoesNotFitCrosses) {
  std::vector<BoundChunk> chunks;
  for (std::uint32_t i = 0; i < 10; ++i) chunks.push_back(chunk(100, false, {{i * 10, 100, 0}}));
  EXPECT_NEAR(least_traffic(chunks, 600, 100, Traffic::both), 400, 40);
  EXPECT_NEAR(least_traffic(chunks, 600, 100, Traffic::out), 0, 1e-6);
}

TEST(Bounds, TheHotChunkIsKeptAndTheColdOneCrosses) {
  const std::vector<BoundChunk> chunks{chunk(100, true, {{0, 100, 100}}),
                                       chunk(100, true, {{1, 1600, 0}, {50, 1600, 0}})};
  EXPECT_NEAR(least_traffic(chunks, 100, 100, Traffic::both), 200, 10);
}

// Every course of every chunk, tried: a few chunks of equal size, a few uses. resident[0] is before the first use,
// resident[u + 1] after use u; where nothing begins or ends, the last goes round to the first.
double brute_force(const std::vector<BoundChunk>& chunks, double window, std::uint32_t duration) {
  double best = 1e300;
  std::vector<std::vector<bool>> resident(chunks.size());
  const auto held_at = [&](std::size_t i, std::uint32_t t) {
    const auto& uses = chunks[i].uses;
    if (t < uses.front().time) return !chunks[i].begins && resident[i][0];
    if (t > uses.back().time && chunks[i].ends) return false;
    std::size_t gap = 0;
    for (std::size_t u = 0; u < uses.size(); ++u)
      if (uses[u].time <= t) gap = u + 1;
    return static_cast<bool>(resident[i][gap]);
  };
  const std::function<void(std::size_t)> choose = [&](std::size_t c) {
    if (c == chunks.size()) {
      for (std::uint32_t t = 0; t < duration; ++t) {
        double held = 0;
        for (std::size_t i = 0; i < chunks.size(); ++i) held += held_at(i, t) ? chunks[i].bytes : 0;
        if (held > window) return;
      }
      double cost = 0;
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        const auto& uses = chunks[i].uses;
        for (std::size_t u = 0; u < uses.size(); ++u) {
          const bool before = resident[i][u], after = resident[i][u + 1];
          const double leave = chunks[i].written ? chunks[i].bytes : 0;
          const double in_place = uses[u].reads + uses[u].writes;
          if (before)
            cost += after ? 0 : leave;
          else
            cost += after ? chunks[i].bytes : std::min(in_place, chunks[i].bytes + leave);
        }
      }
      best = std::min(best, cost);
      return;
    }
    const std::size_t n = chunks[c].uses.size();
    for (unsigned mask = 0; mask < (1u << (n + 1)); ++mask) {
      resident[c].assign(n + 1, false);
      for (std::size_t u = 0; u <= n; ++u) resident[c][u] = (mask >> u & 1) != 0;
      const bool goes_round = !chunks[c].begins && !chunks[c].ends;
      if (!goes_round || resident[c][0] == resident[c][n]) choose(c + 1);
    }
  };
  choose(0);
  return best;
}

TEST(Bounds, MemoryThatComesAndGoesIsBoundedFromBelowToo) {
  double ratio_sum = 0;
  int counted = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    auto random = [engine = std::mt19937(seed)]() mutable { return static_cast<std::uint32_t>(engine()); };
    std::vector<BoundChunk> chunks;
    for (int c = 0; c < 4; ++c) {
      BoundChunk made{10, random() % 2 == 0, {}, random() % 2 == 0, random() % 2 == 0};
      std::uint32_t time = random() % 8;
      for (int u = 0; u < 3; ++u, time += 1 + random() % 8)
        made.uses.push_back({time, 10.0 * (random() % 3), 10.0 * (random() % 2)});
      chunks.push_back(std::move(made));
    }
    const double best = brute_force(chunks, 10, 32);
    const double bound = least_traffic(chunks, 10, 32, Traffic::both);
    ASSERT_LE(bound, best + 1e-6) << "seed " << seed;
    if (best > 0) ratio_sum += bound / best, ++counted;
  }
  EXPECT_GT(ratio_sum / counted, 0.7) << "tight on average";
}

TEST(Bounds, OneAfterTheOtherInTheSamePlaceCrossesNothing) {
  const std::vector<BoundChunk> chunks{{100, true, {{0, 100, 100}, {10, 100, 100}}, false, true},
                                       {100, true, {{20, 100, 100}, {30, 100, 100}}, true, false}};
  EXPECT_EQ(least_traffic(chunks, 100, 40, Traffic::both), 0);
}

TEST(Bounds, NoCourseIsBetterThanTheBoundAndItIsNotFarBelow) {
  double ratio_sum = 0;
  int counted = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    auto random = [engine = std::mt19937(seed)]() mutable { return static_cast<std::uint32_t>(engine()); };
    std::vector<BoundChunk> chunks;
    for (int c = 0; c < 5; ++c) {
      BoundChunk made{10, random() % 2 == 0, {}};
      std::uint32_t time = random() % 8;
      for (int u = 0; u < 3; ++u, time += 1 + random() % 8)
        made.uses.push_back({time, 10.0 * (random() % 3), 10.0 * (random() % 2)});
      chunks.push_back(std::move(made));
    }
    const double best = brute_force(chunks, 20, 32);
    const double bound = least_traffic(chunks, 20, 32, Traffic::both);
    ASSERT_LE(bound, best + 1e-6) << "seed " << seed;
    if (best > 0) ratio_sum += bound / best, ++counted;
  }
  EXPECT_GT(ratio_sum / counted, 0.8) << "tight on average";
}

TEST(Bounds, TimeIsTheLongerOfComputeAndLink) {
  std::vector<BoundChunk> chunks;
  for (std::uint32_t i = 0; i < 10; ++i) chunks.push_back(chunk(1e9, false, {{i, 1e9, 0}}));
  const CostTable costs;
  EXPECT_NEAR(compute_bounds(chunks, Bytes(5000000000u), 10, 0.001, costs).seconds, 5e9 / costs.link_in, 0.02);
  EXPECT_EQ(compute_bounds(chunks, Bytes(5000000000u), 10, 9.0, costs).seconds, 9.0);
}

}  // namespace
}  // namespace spillway::policy
