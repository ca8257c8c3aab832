// Heat against a slow reference, and what it promises about probes.
#include "policy/heat.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace spillway::policy {
namespace {

constexpr AllocationId kPool{1};
constexpr Nanoseconds kLong = Nanoseconds(1'000'000'000);

// Memory of which a part may be put on the host.
struct Pool {
  explicit Pool(std::uint32_t count, AllocationId which = kPool) : id(which), chunks(count) {
    books.add(id, {0}, kChunk * chunks);
    put({id, {0}, chunks}, Placement::host);
  }
  void put(const ChunkRange& range, Placement to) {
    books.open_move({++last}, range, to);
    books.finish_move({last}, MoveOutcome::done);
  }
  [[nodiscard]] SparseRange range(std::uint64_t family = 7) const {
    return {{id, {0}, chunks}, family, 2, 2, SpanClass::kv};
  }
  AllocationId id;
  std::uint32_t chunks;
  Residency books;
  std::uint64_t last = 0;
};

std::vector<ChunkRange> epoch(Heat& heat) {
  std::vector<ChunkRange> map;
  heat.next_epoch(map);
  heat.pass(kLong);
  return map;
}

std::vector<ChunkRange> probes(Heat& heat, const Pool& pool) {
  std::vector<ChunkRange> set;
  heat.set_probes(pool.books, {}, set);
  return set;
}

TEST(Heat, TheFirstProbesAreFewAndInBlocksOfTheirOwn) {
  Pool pool(256);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  heat.pass(kLong);
  const auto set = probes(heat, pool);
  EXPECT_EQ(set.size(), Heat::kFirstProbes);
  std::set<std::uint32_t> blocks;
  for (const ChunkRange& probe : set) blocks.insert(probe.first.value / Heat::kLeastBlock);
  EXPECT_EQ(blocks.size(), set.size());
  EXPECT_TRUE(probes(heat, pool).empty()) << "no more before these are answered";
}

TEST(Heat, ARangeThatIsUsedAsAWholeIsNeverProbedAgain) {
  Pool pool(256);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  for (const ChunkRange& probe : probes(heat, pool)) EXPECT_NE(heat.hit(kPool, probe.first), nullptr);
  epoch(heat);
  EXPECT_EQ(heat.density(7), Density::dense);
  EXPECT_FALSE(heat.worth_watching());
  for (int i = 0; i < 50; ++i) {
    heat.watch(std::vector{pool.range()}, map);
    EXPECT_TRUE(probes(heat, pool).empty());
    epoch(heat);
  }
  // Nor is what joins the family.
  Pool other(256, {2});
  heat.watch(std::vector{pool.range(), other.range()}, map);
  EXPECT_TRUE(probes(heat, other).empty());
  EXPECT_EQ(heat.factor(kPool, {0}, Heat::Where::host), 1);
}

// Before anything is known, a launch that writes a row of a cache does not count as crossing all of it.
TEST(Heat, UntilTheVerdictARangeCrossesAsOftenAsItIsReadAtMost) {
  Pool pool(256);
  SparseRange range = pool.range();
  range.crossings = 6;
  range.uses = 3;
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{range}, map);
  ASSERT_EQ(heat.density(7), Density::undecided);
  for (const Heat::Where at : {Heat::Where::host, Heat::Where::hbm}) EXPECT_DOUBLE_EQ(heat.factor(kPool, {0}, at), 0.5);
}

TEST(Heat, AFewBlocksOnTheHostAreEnoughForAVerdict) {
  Pool pool(64);
  pool.put({kPool, {0}, 44}, Placement::device);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  EXPECT_EQ(probes(heat, pool).size(), 5U);
  for (int i = 0; i < 3; ++i) {
    epoch(heat);
    probes(heat, pool);
  }
  EXPECT_EQ(heat.density(7), Density::sparse);
}

TEST(Heat, WhatIsSeenTellsHotFromColdBlocks) {
  Pool pool(256);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  const auto is_hot = [](std::uint32_t chunk) { return chunk >= 64 && chunk < 96; };
  for (int i = 0; i < 60; ++i) {
    for (const ChunkRange& probe : probes(heat, pool)) map.push_back(probe);
    std::vector<std::uint32_t> used;
    for (const auto& [key, block] : heat.blocks())
      if (block.probe && is_hot(block.probe->value)) used.push_back(block.probe->value);
    for (const std::uint32_t chunk : used) EXPECT_NE(heat.hit(kPool, {chunk}), nullptr);
    EXPECT_TRUE(epoch(heat).empty());
  }
  EXPECT_EQ(heat.density(7), Density::sparse);
  for (const auto& [key, block] : heat.blocks()) {
    const bool hot = is_hot(block.range.first.value);
    EXPECT_EQ(block.seen, hot ? HeatBlock::Seen::hot : HeatBlock::Seen::cold) << key.second;
    EXPECT_EQ(heat.hot(block), hot);
    EXPECT_GE(block.streak, hot ? 5U : 0U);
    EXPECT_EQ(heat.factor(kPool, block.range.first, Heat::Where::host) > 0, hot);
    // In HBM nothing tells: what was in use is taken to be so, other memory as often as its family is.
    EXPECT_DOUBLE_EQ(heat.factor(kPool, block.range.first, Heat::Where::hbm), hot ? 1 : heat.hot_share(7));
  }
}

// Probes cost, so a block is asked now and then. What was in use whenever it was asked has been in use all the time.
TEST(Heat, WhatIsAskedSeldomIsInUseInBetween) {
  Pool pool(32);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  heat.pass(kLong);
  const auto ask = [&](bool used) {
    probes(heat, pool);
    const auto probe = heat.block(kPool, {0})->probe;
    EXPECT_TRUE(probe);
    if (used && probe) heat.hit(kPool, *probe);
  };
  ask(true);
  const HeatBlock& block = *heat.block(kPool, {0});
  EXPECT_EQ(heat.stays_hot(block), 2);
  for (int i = 0; i < 5; ++i) epoch(heat);
  ask(true);
  EXPECT_EQ(block.streak, 6U);
  EXPECT_EQ(heat.stays_hot(block), 6);
  for (int i = 0; i < 5; ++i) epoch(heat);
  ask(false);
  for (int i = 0; i < 2; ++i) epoch(heat);
  EXPECT_EQ(block.streak, 0U);
  ask(true);
  EXPECT_EQ(block.streak, 1U) << "it begins anew";
  EXPECT_GE(heat.stays_hot(block), 4) << "but such blocks have lasted";
}

TEST(Heat, AHitThatIsNoProbesIsNone) {
  Pool pool(64);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  const ChunkRange probe = probes(heat, pool).front();
  EXPECT_EQ(heat.hit(kPool, {probe.first.value + 1}), nullptr);
  EXPECT_EQ(heat.hit({9}, probe.first), nullptr);
  EXPECT_NE(heat.hit(kPool, probe.first), nullptr);
  EXPECT_EQ(heat.hit(kPool, probe.first), nullptr) << "told twice";
}

TEST(Heat, OnlyWholeChunksOnTheHostAreProbed) {
  Pool pool(64);
  pool.put({kPool, {0}, 60}, Placement::device);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  for (const ChunkRange& probe : probes(heat, pool)) EXPECT_GE(probe.first.value, 60U);
  EXPECT_EQ(heat.probes(), 1U);
  pool.books.open_move({1000}, {kPool, {60}, 4}, Placement::device);
  heat.unset(map);
  EXPECT_EQ(heat.probes(), 0U);
  EXPECT_TRUE(probes(heat, pool).empty()) << "they are moving";
}

TEST(Heat, ProbesOfWhatIsGoneAreMappedAgain) {
  Pool pool(128);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  auto set = probes(heat, pool);
  heat.watch({}, map);
  const auto by_chunk = [](const ChunkRange& a, const ChunkRange& b) { return a.first.value < b.first.value; };
  std::sort(set.begin(), set.end(), by_chunk);
  std::sort(map.begin(), map.end(), by_chunk);
  EXPECT_EQ(map, set);
  EXPECT_EQ(heat.probes(), 0U);
  heat.watch(std::vector{pool.range()}, map);
  heat.pass(kLong);
  probes(heat, pool);
  heat.forget(kPool);
  EXPECT_EQ(heat.probes(), 0U);
}

// What probes cost is bounded by time: five hundredths of it, after what is there at first.
TEST(Heat, UsedProbesCostNoMoreThanTheirShareOfTime) {
  Pool pool(4096);
  Heat heat;
  std::vector<ChunkRange> map;
  heat.watch(std::vector{pool.range()}, map);
  std::mt19937 random(1);
  std::int64_t spent = 0, passed = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<ChunkRange> set;
    heat.set_probes(pool.books, {}, set);
    // Half of the blocks are hot, and for some time all of them.
    std::vector<ChunkIndex> used;
    for (const auto& [key, block] : heat.blocks())
      if (block.probe && (key.second / 16 % 2 == 0 || (i > 200 && i < 210))) used.push_back(*block.probe);
    for (const ChunkIndex chunk : used)
      if (heat.hit(kPool, chunk) != nullptr) spent += Heat::kHitCost.count();
    heat.next_epoch(map);
    const std::int64_t step = 50'000'000 + static_cast<std::int64_t>(random() % 50'000'000);
    heat.pass(Nanoseconds(step));
    passed += step;
  }
  const std::int64_t burst = Heat::kHitCost.count() * (4 * Heat::kMostCredit);
  EXPECT_LE(spent, static_cast<std::int64_t>(Heat::kShare * static_cast<double>(passed)) + burst);
  EXPECT_GT(spent, static_cast<std::int64_t>(Heat::kShare * static_cast<double>(passed)) / 4) << "it uses its share";
}

// Pools of equal size, as the layers of a model have them.
struct Layers {
  explicit Layers(std::uint32_t layers) : count(layers) {
    for (std::uint32_t i = 1; i <= count; ++i) {
      books.add({i}, {0}, kChunk * 128);
      books.open_move({i}, {{i}, {0}, 128}, Placement::host);
      books.finish_move({i}, MoveOutcome::done);
      ranges.push_back({{{i}, {0}, 128}, 7, 2, 2, SpanClass::kv});
    }
    std::vector<ChunkRange> map;
    heat.watch(ranges, map);
  }
  // One epoch in which the chunks of `hot` are used; how many probes that met.
  template <class Hot>
  int epoch(const Hot& hot) {
    std::vector<ChunkRange> map;
    heat.pass(kLong);
    heat.set_probes(books, {}, map);
    std::vector<ChunkRange> used;
    for (const auto& [key, block] : heat.blocks())
      if (block.probe && hot(key.first.value, block.probe->value)) used.push_back({key.first, *block.probe, 1});
    for (const ChunkRange& probe : used) {
      const HeatBlock* block = heat.hit(probe.allocation, probe.first);
      if (block != nullptr) heat.spread(*block, map);
    }
    heat.next_epoch(map);
    return static_cast<int>(used.size());
  }
  std::uint32_t count;
  Residency books;
  Heat heat;
  std::vector<SparseRange> ranges;
};

TEST(Heat, OneProbeSpeaksForTheSamePlaceInEveryLayer) {
  Layers layers(8);
  const auto first = [](std::uint32_t, std::uint32_t chunk) { return chunk >= 32 && chunk < 64; };
  for (int i = 0; i < 40; ++i) layers.epoch(first);
  // Something else now, of which one block in each layer is enough to know.
  const auto second = [](std::uint32_t, std::uint32_t chunk) { return chunk >= 96; };
  int met = 0;
  for (int i = 0; i < 4; ++i) met += layers.epoch(second);
  int hot = 0;
  std::set<std::uint64_t> columns;
  for (const auto& [key, block] : layers.heat.blocks()) {
    EXPECT_EQ(layers.heat.hot(block), second(0, block.range.first.value)) << key.first.value << " " << key.second;
    hot += layers.heat.hot(block) ? 1 : 0;
    EXPECT_TRUE(!block.probe || columns.insert(block.column).second) << "two probes in a column";
  }
  EXPECT_EQ(hot, 8 * 8);
  EXPECT_LE(met, 4 * 8) << "each block of one layer, in each epoch";
}

TEST(Heat, LayersThatUseDifferentPlacesSpeakForThemselves) {
  Layers layers(8);
  const auto own = [](std::uint32_t layer, std::uint32_t chunk) { return chunk / 16 == layer - 1; };
  for (int i = 0; i < 60; ++i) layers.epoch(own);
  for (const auto& [key, block] : layers.heat.blocks())
    EXPECT_EQ(layers.heat.hot(block), own(key.first.value, block.range.first.value)) << key.first.value;
}

// The same by plain sets: which probes are set, which block was seen how, and the verdict of a family.
class Reference {
 public:
  void set(const ChunkRange& probe) { set_[block_of(probe.first)] = {probe.first.value, epoch_}; }
  bool hit(ChunkIndex chunk) {
    const auto probe = set_.find(block_of(chunk));
    if (probe == set_.end() || probe->second.first != chunk.value) return false;
    see(probe->first, true);
    set_.erase(probe);
    return true;
  }
  void next_epoch() {
    for (const auto& [block, probe] : set_)
      if (probe.second < epoch_) see(block, false);
    ++epoch_;
  }
  [[nodiscard]] std::optional<bool> seen(std::uint32_t block) const {
    const auto found = seen_.find(block);
    return found == seen_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::size_t probes() const { return set_.size(); }
  [[nodiscard]] double hot_share() const { return first_ == 0 ? 1 : static_cast<double>(hit_) / first_; }
  static std::uint32_t block_of(ChunkIndex chunk) { return chunk.value / Heat::kLeastBlock; }
  void unset() { set_.clear(); }
  void unset_one(const ChunkRange& probe) { set_.erase(block_of(probe.first)); }

 private:
  void see(std::uint32_t block, bool used) {
    if (seen_.try_emplace(block, used).second) {
      ++first_;
      hit_ += used ? 1 : 0;
    }
    seen_[block] = used;
  }
  std::map<std::uint32_t, std::pair<std::uint32_t, int>> set_;
  std::map<std::uint32_t, bool> seen_;
  int first_ = 0, hit_ = 0;
  int epoch_ = 1;
};

TEST(Heat, SeesWhatASlowReferenceSees) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    Pool pool(200);
    Heat heat;
    Reference reference;
    std::vector<ChunkRange> map;
    heat.watch(std::vector{pool.range()}, map);
    std::set<std::uint32_t> hot;
    for (int step = 0; step < 400; ++step) {
      switch (random() % 6) {
        case 0:
          hot.insert(static_cast<std::uint32_t>(random() % 50));
          if (hot.size() > 12) hot.erase(hot.begin());
          break;
        case 1:
          for (const ChunkRange& probe : probes(heat, pool)) {
            ASSERT_EQ(pool.books.chunks(kPool)[probe.first.value].at, Placement::host);
            reference.set(probe);
          }
          break;
        case 2: {
          const ChunkIndex chunk{static_cast<std::uint32_t>(random() % 200)};
          ASSERT_EQ(heat.hit(kPool, chunk) != nullptr, reference.hit(chunk));
          break;
        }
        case 3: {
          std::vector<ChunkIndex> used;
          for (const auto& [key, block] : heat.blocks())
            if (block.probe && hot.contains(key.second / Heat::kLeastBlock)) used.push_back(*block.probe);
          for (const ChunkIndex chunk : used) {
            ASSERT_NE(heat.hit(kPool, chunk), nullptr);
            ASSERT_TRUE(reference.hit(chunk));
          }
          break;
        }
        case 4:
          if (!epoch(heat).empty()) reference.unset();
          reference.next_epoch();
          break;
        default: {
          const std::uint32_t block = static_cast<std::uint32_t>(random() % 50) * Heat::kLeastBlock;
          const HeatBlock& moved = *heat.block(kPool, {block});
          const bool in = Heat::where(moved, pool.books) == Heat::Where::host;
          std::vector<ChunkRange> gone;
          if (in) heat.unset(moved.range, gone);
          for (const ChunkRange& probe : gone) reference.unset_one(probe);
          pool.put(moved.range, in ? Placement::device : Placement::host);
        }
      }
      ASSERT_EQ(heat.probes(), reference.probes()) << "seed " << seed << " step " << step;
    }
    for (const auto& [key, block] : heat.blocks()) {
      const auto seen = reference.seen(key.second / Heat::kLeastBlock);
      EXPECT_EQ(block.seen == HeatBlock::Seen::never, !seen.has_value());
      EXPECT_EQ(block.seen == HeatBlock::Seen::hot, seen.value_or(false));
    }
    EXPECT_NEAR(heat.hot_share(7), std::max(0.02, reference.hot_share()), 1e-9);
  }
}

}  // namespace
}  // namespace spillway::policy
