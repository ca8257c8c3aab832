#include "policy/planner.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace spillway::policy {
namespace {

Piece piece(std::uint32_t first, std::uint32_t chunks, double crossings, bool in_hbm) {
  Piece p;
  p.range = {{1}, {first}, chunks};
  p.bytes = kChunk * chunks;
  p.crossings = crossings;
  p.in_hbm = in_hbm;
  p.host_pages = true;
  return p;
}

Bytes sum(std::span<const Piece> pieces, const std::vector<std::uint32_t>& which) {
  Bytes total;
  for (const std::uint32_t i : which) total += pieces[i].bytes;
  return total;
}

TEST(Planner, ColdGoesOutForHotAndNothingElseMoves) {
  std::vector<Piece> pieces{piece(0, 16, 1, true), piece(16, 16, 8, true), piece(32, 16, 4, false),
                            piece(48, 16, 1, false)};
  const Exchange plan = plan_exchange(pieces, {}, {});
  EXPECT_EQ(plan.out, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(plan.in, (std::vector<std::uint32_t>{2}));
  EXPECT_GT(plan.seconds_saved, 0);
}

TEST(Planner, EqualPiecesNeverSwap) {
  std::vector<Piece> pieces{piece(0, 16, 2, true), piece(16, 16, 2, false), piece(32, 16, 2.02, false)};
  EXPECT_TRUE(plan_exchange(pieces, {}, {}).empty());
}

TEST(Planner, RoomIsFilledWithoutSendingAnythingOut) {
  std::vector<Piece> pieces{piece(0, 16, 1, true), piece(16, 16, 2, false), piece(32, 16, 0.9, false)};
  PlannerLimits limits;
  limits.room = 32_MiB;
  const Exchange plan = plan_exchange(pieces, limits, {});
  EXPECT_TRUE(plan.out.empty());
  EXPECT_EQ(plan.in, (std::vector<std::uint32_t>{1}));
}

TEST(Planner, WhatIsNotUsedStaysOnTheHostEvenWithRoom) {
  std::vector<Piece> pieces{piece(0, 16, 0, false)};
  PlannerLimits limits;
  limits.room = 1_GiB;
  EXPECT_TRUE(plan_exchange(pieces, limits, {}).empty());
}

TEST(Planner, AnExchangeMustEarnItsCostBackInTime) {
  std::vector<Piece> pieces{piece(0, 16, 1.0, true), piece(16, 16, 1.5, false)};
  PlannerLimits limits;
  limits.horizon = 64;
  EXPECT_FALSE(plan_exchange(pieces, limits, {}).empty());
  limits.horizon = 4;
  EXPECT_TRUE(plan_exchange(pieces, limits, {}).empty());
}

TEST(Planner, HostMemoryThatIsFullKeepsPiecesIn) {
  std::vector<Piece> pieces{piece(0, 16, 1, true), piece(16, 16, 9, false)};
  pieces[0].host_pages = false;
  PlannerLimits limits;
  limits.host_room = 1_MiB;
  EXPECT_TRUE(plan_exchange(pieces, limits, {}).empty());
}

// Eight chunks are worth more than eight of the sixteen that would leave, and less than all of them.
TEST(Planner, OnlyAsMuchLeavesAsIsNeeded) {
  std::vector<Piece> pieces{piece(0, 16, 1, true), piece(16, 8, 1.5, false)};
  const Exchange plan = plan_exchange(pieces, {}, {});
  EXPECT_EQ(plan.in, (std::vector<std::uint32_t>{1}));
  ASSERT_EQ(plan.out, (std::vector<std::uint32_t>{0}));
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].range, (ChunkRange{{1}, {0}, 8}));
  EXPECT_EQ(pieces[2].range, (ChunkRange{{1}, {8}, 8}));
  EXPECT_EQ(pieces[0].bytes + pieces[2].bytes, kChunk * 16);
}

// Invariants on random layouts, and the worth left outside compared with the best possible filling (fractional
// knapsack).
TEST(Planner, FitsTheWindowAndComesCloseToTheBestFilling) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    auto random = [engine = std::mt19937(seed)]() mutable { return static_cast<std::uint32_t>(engine()); };
    std::vector<Piece> pieces;
    std::uint32_t at = 0;
    for (int i = 0; i < 120; ++i) {
      const std::uint32_t chunks = 1 + random() % 16;
      pieces.push_back(piece(at, chunks, (random() % 100) / 10.0, random() % 2 == 0));
      at += chunks;
    }
    PlannerLimits limits;
    limits.room = kChunk * (random() % 20);
    limits.horizon = 1e9;  // cost of moving left aside, so that only the filling counts
    const CostTable costs;
    const Exchange plan = plan_exchange(pieces, limits, costs);
    ASSERT_LE(sum(pieces, plan.in).count(), (limits.room + sum(pieces, plan.out)).count());
    for (const std::uint32_t i : plan.out) ASSERT_TRUE(pieces[i].in_hbm);
    for (const std::uint32_t i : plan.in) ASSERT_FALSE(pieces[i].in_hbm);

    std::vector<bool> inside;
    for (const Piece& p : pieces) inside.push_back(p.in_hbm);
    for (const std::uint32_t i : plan.out) inside[i] = false;
    for (const std::uint32_t i : plan.in) inside[i] = true;
    double kept = 0, left = static_cast<double>(limits.room.count());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (inside[i]) kept += pieces[i].crossings * static_cast<double>(pieces[i].bytes.count());
      if (pieces[i].in_hbm) left += static_cast<double>(pieces[i].bytes.count());
    }
    std::vector<std::size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return pieces[a].crossings > pieces[b].crossings; });
    double best = 0;
    for (const std::size_t i : order) {
      const double bytes = std::min(left, static_cast<double>(pieces[i].bytes.count()));
      best += pieces[i].crossings * bytes;
      left -= bytes;
    }
    ASSERT_GE(kept, 0.95 * best) << "seed " << seed;
    // Carried out again and again, it comes to rest: no thrash.
    std::vector<Piece> now = pieces;
    PlannerLimits then;
    then.room = limits.room;
    Exchange again = plan;
    for (int round = 0; round < 6 && !again.empty(); ++round) {
      for (const std::uint32_t i : again.out) now[i].in_hbm = false;
      for (const std::uint32_t i : again.in) now[i].in_hbm = true;
      then.room = then.room + sum(now, again.out) - sum(now, again.in);
      again = plan_exchange(now, then, costs);
    }
    ASSERT_TRUE(again.empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spillway::policy
