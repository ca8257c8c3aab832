// The parts of a page's data: columns, figures by time, stacks, pieces, residency.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/tools/view_reading.hpp"
#include "tools/view/heat_map.hpp"
#include "tools/view/residency_series.hpp"
#include "tools/view/time_bins.hpp"

namespace spillway::tools::view {
namespace {

using namespace policy;
using ::testing::ElementsAre;

TEST(ViewColumn, KeepsEveryNumberThatADoubleCanHold) {
  const std::vector<std::int64_t> values = {0, -1, 1, 63, 64, -64, -65, 1'000'000'007, -5, std::int64_t{1} << 51U, 0};
  Column column;
  for (const std::int64_t value : values) column.add(value);
  std::size_t at = 0;
  EXPECT_EQ(decode(column.bytes(), at, values.size()), values);
}

TEST(ViewColumn, WhatOnlyDamageHasIsBounded) {
  Column column;
  column.add(~std::uint64_t{0});
  column.add(std::numeric_limits<std::int64_t>::min());
  column.add(std::int64_t{7});
  std::size_t at = 0;
  const std::int64_t most = std::int64_t{1} << 51U;
  EXPECT_THAT(decode(column.bytes(), at, 3), ElementsAre(most, -most, 7));
}

struct SumBin {
  double sum = 0;
  void merge(const SumBin& later) { sum += later.sum; }
};

TEST(ViewTimeBins, AddUpHoweverOftenTheyWiden) {
  TimeBins<SumBin> bins(64);
  std::mt19937_64 random(3);
  double total = 0;
  std::int64_t time = 0;
  std::vector<std::int64_t> times;
  for (int i = 0; i < 5000; ++i) {
    time += static_cast<std::int64_t>(random() % 100'000);
    times.push_back(time);
    bins.at(Nanoseconds(time)).sum += 1;
    bins.spread(Nanoseconds(time - 50'000), Nanoseconds(time + 2'000'000),
                [](SumBin& bin, double share) { bin.sum += share; });
    total += 2;
    ASSERT_LE(bins.bins().size(), 64U);
  }
  for (const std::size_t factor : {1U, 2U, 16U}) {
    const TimeBins<SumBin> level = bins.coarser(factor);
    EXPECT_EQ(level.width().count(), bins.width().count() * static_cast<std::int64_t>(factor));
    double sum = 0;
    for (const SumBin& bin : level.bins()) sum += bin.sum;
    EXPECT_NEAR(sum, total, 1e-6);
  }
  EXPECT_GT(static_cast<std::int64_t>(bins.bins().size()) * bins.width().count(), times.back());
}

TEST(ViewTimeBins, AnAbsurdTimeTakesNoMemory) {
  TimeBins<SumBin> bins(64);
  bins.at(Nanoseconds(5)).sum = 1;
  bins.at(Nanoseconds(std::numeric_limits<std::int64_t>::max())).sum = 1;
  bins.at(Nanoseconds(-9)).sum += 1;
  EXPECT_LE(bins.bins().size(), 64U);
  EXPECT_EQ(bins.bins().front().sum, 2);
}

TEST(ViewLanes, ABinSaysWhatMostOfItsLaunchesWere) {
  LaneBin first, second;
  for (int i = 0; i < 7; ++i) first.vote(i < 5 ? 8 : 10, 1);
  for (int i = 0; i < 6; ++i) second.vote(10, 1);
  EXPECT_EQ(first.code, 8U);
  first.merge(second);
  EXPECT_EQ(first.code, 10U);
}

TEST(ViewItems, WhatIsTooMuchIsCounted) {
  Blocks blocks;
  ItemBlocks items(1);  // a single block is more than that
  for (std::uint32_t i = 0; i < 2 * ItemBlocks::kRows + 10; ++i)
    items.add(blocks, Nanoseconds(i * 100), 0, 2, 0, i + 1);
  items.finish(blocks);
  EXPECT_EQ(items.directory().size(), 2U);
  EXPECT_EQ(items.left_out(), 10U);
  EXPECT_EQ(items.directory()[0]["number"], 1);
}

// Large blocks are deflated by other threads, several at a time: each must come out in its own place.
TEST(ViewBlocks, KeepTheirPlacesHoweverManyAreUnderWay) {
  Blocks blocks;
  std::vector<std::size_t> ids;
  for (std::int64_t i = 0; i < 40; ++i) {
    Column column;
    for (std::int64_t row = 0; row < (i % 3 == 0 ? 5 : 40'000); ++row) column.add(row * (i + 1));
    ids.push_back(blocks.add({{"value", &column}})["id"]);
    if (i == 20) {
      EXPECT_GT(blocks.bytes_of(ids[19]), 0U);
    }
  }
  ViewData data;
  data.blocks = blocks.take();
  for (std::int64_t i = 0; i < 40; ++i) {
    const Json block = {
        {"id", ids[static_cast<std::size_t>(i)]}, {"rows", i % 3 == 0 ? 5 : 40'000}, {"columns", {"value"}}};
    EXPECT_EQ(table_of(data, block)["value"][4], 4 * (i + 1));
  }
}

// Allocations of random size and life, half of them of a class.
std::vector<ListedAllocation> random_allocations(std::mt19937_64& random, std::size_t count) {
  std::vector<ListedAllocation> allocations(count);
  std::int64_t time = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ListedAllocation& each = allocations[i];
    each.id = {static_cast<std::uint32_t>(i + 1)};
    each.asked = Nanoseconds(time += static_cast<std::int64_t>(random() % 1000));
    each.bytes = Bytes((1 + random() % 64) << 20U);
    each.backing = random() % 4 == 0 ? Backing::device : Backing::managed;
    each.settled = true;
    policy::Decision named{{}, {}, policy::Note{}};
    named.cause.span_class = static_cast<std::uint16_t>(1 + random() % 6);
    if (random() % 2 == 0) each.said.add(named);
    if (random() % 3 != 0) each.freed = each.asked + Nanoseconds(static_cast<std::int64_t>(random() % 20'000));
  }
  return allocations;
}

TEST(ViewStack, WhatLivesAtOnceNeverSharesAPlace) {
  std::mt19937_64 random(11);
  const std::vector<ListedAllocation> all = random_allocations(random, 400);
  const StackLayout layout = stack(all);
  for (std::size_t a = 0; a < all.size(); ++a) {
    ASSERT_TRUE(layout.places[a].shown);
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      if (all[a].freed && *all[a].freed <= all[b].asked) continue;  // gone before b came
      const std::uint64_t from = layout.places[a].from, to = from + all[a].bytes.count();
      const std::uint64_t other = layout.places[b].from, end = other + all[b].bytes.count();
      ASSERT_TRUE(end <= from || to <= other) << a << " and " << b;
    }
  }
  std::uint64_t top = 0;
  for (const StackBand& band : layout.bands) {
    EXPECT_EQ(band.from, top);
    top = band.to;
  }
  EXPECT_EQ(layout.bands.front().name, "weights");
  EXPECT_EQ(layout.bands.back().name, "plain");
}

TEST(ViewPieces, SayWhereEveryChunkWas) {
  std::mt19937_64 random(5);
  std::vector<ListedAllocation> allocations(2);
  allocations[0].bytes = 64_MiB;
  allocations[1].bytes = 7_MiB;  // the last chunk is short
  std::vector<ViewMove> moves;
  std::vector<std::vector<Placement>> now = {std::vector(32, Placement::unpopulated),
                                             std::vector(4, Placement::unpopulated)};
  std::vector<std::vector<std::vector<Placement>>> after;  // each move
  for (int i = 0; i < 300; ++i) {
    ViewMove move;
    move.row = static_cast<Row>(random() % 2);
    auto& chunks = now[move.row];
    const std::uint64_t first = random() % chunks.size();
    const std::uint64_t count = 1 + random() % (chunks.size() - first);
    move.offset = kChunk * first;
    move.bytes = std::min(kChunk * count, allocations[move.row].bytes - move.offset);
    move.to = random() % 2 == 0 ? Placement::device : Placement::host;
    move.outcome = random() % 5 == 0 ? MoveOutcome::cancelled : MoveOutcome::done;
    move.end = Nanoseconds(1000 * (i + 1));
    for (std::uint64_t c = first; c < first + count && move.outcome == MoveOutcome::done; ++c) chunks[c] = move.to;
    moves.push_back(move);
    after.push_back(now);
  }
  const std::vector<Piece> pieces = cut_into_pieces(allocations, moves);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    for (Row row = 0; row < 2; ++row) {
      for (std::size_t chunk = 0; chunk < now[row].size(); ++chunk) {
        Placement found = Placement::unpopulated;
        for (const Piece& piece : pieces) {
          if (piece.row != row || piece.offset > kChunk * chunk) continue;
          found = Placement::unpopulated;
          for (const PieceChange& change : piece.changes) {
            if (change.time <= moves[i].end) found = change.to;
          }
        }
        ASSERT_EQ(found, after[i][row][chunk]) << "move " << i << ", chunk " << chunk;
      }
    }
  }
}

// A peak of a moment must be seen from afar, or a broken budget would not be.
TEST(ViewResidency, AnInstantAboveTheBudgetIsInEveryLevel) {
  ResidencySeries series;
  DeviceTotals totals;
  for (int i = 0; i < 200'000; ++i) {
    totals.resident = Bytes(static_cast<std::uint64_t>(i % 7) << 20U);
    if (i == 123'456) totals.resident = 5_GiB;
    series.add(Nanoseconds(1'000'000LL * i), totals, {});
  }
  ViewData data;
  Blocks blocks;
  const Json levels = series.to_json(blocks);
  data.blocks = blocks.encoded();
  ASSERT_EQ(levels.size(), 3U);
  for (const Json& level : levels) {
    TableOf table = table_of(data, level);
    const auto peak = std::max_element(table["resident"].begin(), table["resident"].end());
    EXPECT_EQ(*peak, static_cast<std::int64_t>((5_GiB).count()));
    EXPECT_EQ(table["time"][static_cast<std::size_t>(peak - table["resident"].begin())], 123'456'000'000);
    EXPECT_TRUE(std::is_sorted(table["time"].begin(), table["time"].end()));
    EXPECT_EQ(table["resident"].back(), 199'999 % 7 << 20);
  }
}

}  // namespace
}  // namespace spillway::tools::view
