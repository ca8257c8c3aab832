// Who takes turns within an iteration, and what is expected of it: on schedules that can be checked by hand, and on
// random ones against what must always hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "policy/stream_schedule.hpp"

namespace spillway::policy {
namespace {

constexpr Bytes kPiece = 32_MiB;

StreamPiece piece(std::uint32_t number, bool in_hbm) {
  StreamPiece made;
  made.range = {{number}, {0}, 16};
  made.bytes = kPiece;
  made.in_hbm = in_hbm;
  return made;
}

// In place, of each stretch: nothing is hidden.
std::vector<Stretch> stretches_of(const std::vector<StreamPiece>& pieces, std::size_t count, double compute) {
  std::vector<Stretch> all(count);
  for (std::size_t k = 0; k < count; ++k) {
    all[k].compute = compute;
    for (const StreamPiece& each : pieces) {
      if (!each.in_hbm) all[k].link += each.seconds[k];
    }
    all[k].stall = std::max(0.0, all[k].link - compute);
  }
  return all;
}

// Eight blocks, each worked on in two of sixteen stretches; two have room.
std::vector<StreamPiece> blocks(float seconds) {
  std::vector<StreamPiece> all;
  for (std::uint32_t i = 0; i < 8; ++i) {
    all.push_back(piece(i + 1, i < 2));
    all.back().seconds[2 * i] = all.back().seconds[2 * i + 1] = seconds;
  }
  return all;
}

TEST(StreamSchedule, BlocksThatAreWorkedOnOneAfterTheOtherTakeTurns) {
  const auto pieces = blocks(10e-3F);
  const StreamSchedule plan = plan_streaming(pieces, stretches_of(pieces, 16, 4e-3), {}, {});
  EXPECT_GE(plan.turns, 3u);
  EXPECT_LT(plan.seconds_after, 0.75 * plan.seconds_before);
  EXPECT_EQ(plan.limit, kPiece * 2);
  for (std::size_t i = 0; i < pieces.size(); ++i) EXPECT_EQ(plan.pieces[i].turns, StretchMask{0b11} << (2 * i)) << i;
}

// Nothing else is different: with the link to themselves, moves win more than beside what is read in place.
TEST(StreamSchedule, MovesThatCrawlAreCountedAsTheyAre) {
  const auto pieces = blocks(5e-3F);
  CostTable free_link;
  free_link.move_beside_in_place = free_link.move_in;
  const auto stretches = stretches_of(pieces, 16, 1e-3);
  const StreamSchedule crawling = plan_streaming(pieces, stretches, {}, {});
  const StreamSchedule free = plan_streaming(pieces, stretches, {}, free_link);
  EXPECT_EQ(crawling.seconds_before, free.seconds_before);
  EXPECT_LT(free.seconds_after, 0.9 * crawling.seconds_after);
}

TEST(StreamSchedule, WhatIsUsedOnceIsReadInPlace) {
  // 32 MiB once over the link are 0.66 ms; in and out again are 3.
  const auto pieces = blocks(0.33e-3F);
  const StreamSchedule plan = plan_streaming(pieces, stretches_of(pieces, 16, 0.05e-3), {}, {});
  EXPECT_EQ(plan.turns, 0u);
  EXPECT_EQ(plan.seconds_after, plan.seconds_before);
  EXPECT_EQ(plan.moved, Bytes());
}

TEST(StreamSchedule, NothingLeavesThatMayNot) {
  auto pieces = blocks(10e-3F);
  for (StreamPiece& each : pieces) each.may_move = !each.in_hbm;
  EXPECT_EQ(plan_streaming(pieces, stretches_of(pieces, 16, 4e-3), {}, {}).turns, 0u);
  EXPECT_GT(plan_streaming(pieces, stretches_of(pieces, 16, 4e-3), kPiece, {}).turns, 0u) << "there is room";
}

TEST(StreamSchedule, RandomOnesKeepWhatTheyPromise) {
  std::mt19937 random(20261130);  // NOLINT: the same every time
  const auto below = [&random](std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); };
  std::uint32_t turns = 0;
  for (int round = 0; round < 400; ++round) {
    const std::size_t count = 4 + below(kMostStretches - 3);
    std::vector<StreamPiece> pieces;
    for (std::uint32_t i = 0; i < 5 + below(60); ++i) {
      pieces.push_back(piece(i + 1, below(3) == 0));
      pieces.back().bytes = kChunk * (1 + below(16));
      pieces.back().may_move = below(10) != 0;
      pieces.back().least_lead = 1 + below(3);
      const std::uint32_t uses = below(4);
      for (std::uint32_t use = 0; use < uses; ++use)
        pieces.back().seconds[below(static_cast<std::uint32_t>(count))] += static_cast<float>(below(8000)) * 1e-6F;
    }
    const auto stretches = stretches_of(pieces, count, below(6000) * 1e-6);
    const Bytes room = kChunk * below(32);
    const StreamSchedule plan = plan_streaming(pieces, stretches, room, {});
    turns += plan.turns;
    ASSERT_EQ(plan.pieces.size(), pieces.size());
    ASSERT_LE(plan.seconds_after, plan.seconds_before) << "round " << round;
    double least = 0;
    for (const Stretch& stretch : stretches) least += stretch.compute;
    ASSERT_GE(plan.seconds_after, 0.999 * least) << "round " << round;
    Bytes resident = room;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const TurnPiece& taken = plan.pieces[i];
      if (taken.turns == 0) continue;
      ASSERT_TRUE(pieces[i].may_move) << "round " << round;
      if (pieces[i].in_hbm) resident += pieces[i].bytes;
      for (std::size_t k = 0; k < count; ++k) ASSERT_EQ((taken.used >> k & 1U) != 0, pieces[i].seconds[k] > 0);
      ASSERT_EQ(taken.turns & ~taken.used, 0u) << "round " << round;
    }
    ASSERT_TRUE(plan.turns == 0 || plan.limit == resident) << "round " << round;
  }
  EXPECT_GT(turns, 200u) << "else nothing was tested";
}

}  // namespace
}  // namespace spillway::policy
