// Turns within an iteration: on schedules that can be checked by hand, and on random ones against what must always
// hold.
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

bool has(StretchMask mask, std::size_t k) { return (mask & (StretchMask{1} << k)) != 0; }

// Bytes that a schedule holds in a stretch, in which what leaves is still there.
Bytes held(const std::vector<StreamPiece>& pieces, const StreamSchedule& plan, std::size_t count, std::size_t k) {
  Bytes sum;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (has(plan.in_hbm[i], k) || has(plan.in_hbm[i], (k + count - 1) % count)) sum += pieces[i].bytes;
  }
  return sum;
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
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (plan.in_hbm[i] == 0 || pieces[i].in_hbm) continue;
    EXPECT_TRUE(has(plan.in_hbm[i], 2 * i) && has(plan.in_hbm[i], 2 * i + 1)) << "it is there while it is used";
    EXPECT_TRUE(has(plan.in_hbm[i], 2 * i - 1)) << "and comes before";
    EXPECT_NE(plan.in_hbm[i], all_stretches(16)) << "and leaves";
  }
  for (std::size_t k = 0; k < 16; ++k) EXPECT_LE(held(pieces, plan, 16, k), kPiece * 2) << k;
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

TEST(StreamSchedule, ALeadIsKept) {
  auto pieces = blocks(10e-3F);
  for (StreamPiece& each : pieces) each.least_lead = 3;
  const StreamSchedule plan = plan_streaming(pieces, stretches_of(pieces, 16, 4e-3), {}, {});
  ASSERT_GT(plan.turns, 0u);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].in_hbm || plan.in_hbm[i] == 0) continue;
    for (std::size_t back = 1; back <= 3; ++back) EXPECT_TRUE(has(plan.in_hbm[i], (2 * i + 16 - back) % 16)) << i;
  }
}

// The estimate again, from the masks alone.
double reference_seconds(const std::vector<StreamPiece>& pieces, const std::vector<StretchMask>& masks,
                         std::vector<Stretch> stretches, const CostTable& costs) {
  const std::size_t count = stretches.size();
  std::vector<double> in(count), out(count);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const double bytes = static_cast<double>(pieces[i].bytes.count());
    for (std::size_t k = 0; k < count; ++k) {
      const bool is = has(masks[i], k), was = has(masks[i], (k + count - 1) % count);
      if (is && !was) in[k] += costs.bring_in(pieces[i].bytes, std::max(pieces[i].bytes, 32_MiB));
      if (was && !is) out[k] += bytes / costs.move_out;
    }
  }
  double sum = 0;
  for (std::size_t k = 0; k < count; ++k) {
    double brought = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!pieces[i].in_hbm && has(masks[i], k) && has(masks[i], (k + count - 1) % count))
        brought += pieces[i].seconds[k];
    }
    Stretch& stretch = stretches[k];
    brought = std::min(brought, stretch.link);
    if (brought > 0) stretch.stall *= (stretch.link - brought) / stretch.link;
    stretch.link -= brought;
    sum += std::max({stretch.compute + stretch.stall, stretch.link + in[k], out[k]});
  }
  return sum;
}

TEST(StreamSchedule, RandomOnesKeepWhatTheyPromise) {
  std::mt19937 random(20261130);  // NOLINT: the same every time
  const auto below = [&random](std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); };
  std::uint32_t turns = 0;
  for (int round = 0; round < 400; ++round) {
    const std::size_t count = 4 + below(kMostStretches - 3);
    std::vector<StreamPiece> pieces;
    Bytes resident;
    for (std::uint32_t i = 0; i < 5 + below(60); ++i) {
      pieces.push_back(piece(i + 1, below(3) == 0));
      pieces.back().bytes = kChunk * (1 + below(16));
      pieces.back().may_move = below(10) != 0;
      pieces.back().least_lead = 1 + below(3);
      if (pieces.back().in_hbm) resident += pieces.back().bytes;
      const std::uint32_t uses = below(4);
      for (std::uint32_t use = 0; use < uses; ++use)
        pieces.back().seconds[below(static_cast<std::uint32_t>(count))] += static_cast<float>(below(8000)) * 1e-6F;
    }
    const auto stretches = stretches_of(pieces, count, below(6000) * 1e-6);
    const Bytes room = kChunk * below(32);
    const CostTable costs;
    const StreamSchedule plan = plan_streaming(pieces, stretches, room, costs);
    turns += plan.turns;
    ASSERT_EQ(plan.in_hbm.size(), pieces.size());
    ASSERT_LE(plan.seconds_after, plan.seconds_before) << "round " << round;
    ASSERT_NEAR(plan.seconds_after, reference_seconds(pieces, plan.in_hbm, stretches, costs), 1e-6)
        << "round " << round;
    for (std::size_t k = 0; k < count; ++k) {
      ASSERT_LE(held(pieces, plan, count, k), resident + room) << "round " << round << " stretch " << k;
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const StretchMask layout = pieces[i].in_hbm ? all_stretches(count) : 0;
      if (!pieces[i].may_move) {
        ASSERT_EQ(plan.in_hbm[i], layout) << "round " << round;
      }
      if (!pieces[i].in_hbm) continue;
      for (std::size_t k = 0; k < count; ++k) {
        if (pieces[i].seconds[k] <= 0) continue;
        // What the layout keeps is there whenever it is used, and came a stretch before.
        ASSERT_TRUE(has(plan.in_hbm[i], k) && has(plan.in_hbm[i], (k + count - 1) % count)) << "round " << round;
      }
    }
  }
  EXPECT_GT(turns, 200u) << "else nothing was tested";
}

}  // namespace
}  // namespace spillway::policy
