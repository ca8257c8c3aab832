#include "policy/heat.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace spillway::policy {
namespace {

constexpr double kNews = 0.25;  // weight of an epoch in a family's rate
// Epochs that anything is expected to stay in use. What has lasted ends some time, and beyond this more is lost by what
// leaves in exchange, where that is in use as well and nobody tells.
constexpr double kMostStay = 6;
constexpr double kLeastShare = 0.02;  // of a family that is hot
// No iteration counts for more.
constexpr std::int64_t kMostPassed = 1'000'000'000;

std::uint64_t spread_bits(std::uint64_t value) {
  value *= 0x9E3779B97F4A7C15ULL;
  return value ^ (value >> 29U);
}

}  // namespace

void Heat::watch(std::span<const SparseRange> ranges, std::vector<ChunkRange>& map) {
  Blocks now;
  std::uint64_t chunks = 0;
  for (const SparseRange& range : ranges) chunks += range.chunks.count;
  const auto wanted = static_cast<std::uint32_t>(std::bit_ceil(std::min<std::uint64_t>(chunks / kBlocks, kMostBlock)));
  for (const SparseRange& range : ranges) {
    if (range.chunks.count == 0) continue;
    const AllocationId id = range.chunks.allocation;
    const std::uint32_t size = block_chunks_.try_emplace(id, std::clamp(wanted, kLeastBlock, kMostBlock)).first->second;
    const std::uint32_t end = range.chunks.first.value + range.chunks.count;
    for (std::uint32_t first = range.chunks.first.value; first < end;) {
      const std::uint32_t slot = first / size * size;
      const std::uint32_t stop = std::min(end, slot + size);
      HeatBlock& block = now[{id, slot}];
      // Two ranges may share a block: it is of the one that has more of it.
      if (block.range.count < stop - first) {
        block.range = {id, {first}, stop - first};
        block.family = range.family;
        block.crossings = range.crossings;
        block.uses = range.uses;
        block.span_class = range.span_class;
        const std::uint64_t place = std::uint64_t{range.chunks.count} << 32U | (first - range.chunks.first.value);
        block.column = spread_bits(range.family ^ spread_bits(place));
      }
      first = stop;
    }
    families_.try_emplace(range.family);
  }
  for (auto& [key, block] : blocks_) {
    const auto same = now.find(key);
    const bool stays = same != now.end() && same->second.family == block.family;
    const bool inside = stays && block.probe && block.probe->value >= same->second.range.first.value &&
                        block.probe->value < same->second.range.first.value + same->second.range.count;
    if (block.probe && !inside) {
      if (const auto gone = drop_probe(block)) map.push_back(*gone);
    }
    if (!stays) continue;
    HeatBlock& next = same->second;
    next.seen = block.seen;
    next.probe = block.probe;
    next.probes = block.probes;
    next.set_at = block.set_at;
    next.hit_at = block.hit_at;
    next.told_at = block.told_at;
    next.told_before = block.told_before;
    next.streak = block.streak;
  }
  blocks_ = std::move(now);
  find_columns();
}

void Heat::forget(AllocationId allocation) {
  for (auto block = blocks_.lower_bound({allocation, 0}); block != blocks_.end() && block->first.first == allocation;) {
    drop_probe(block->second);
    block = blocks_.erase(block);
  }
  block_chunks_.erase(allocation);
  find_columns();
}

HeatBlock* Heat::find(AllocationId allocation, ChunkIndex chunk) {
  auto next = blocks_.upper_bound({allocation, chunk.value});
  if (next == blocks_.begin()) return nullptr;
  HeatBlock& block = std::prev(next)->second;
  const bool holds = block.range.allocation == allocation && chunk.value >= block.range.first.value &&
                     chunk.value < block.range.first.value + block.range.count;
  return holds ? &block : nullptr;
}

const HeatBlock* Heat::block(AllocationId allocation, ChunkIndex chunk) const {
  return const_cast<Heat*>(this)->find(allocation, chunk);
}

void Heat::seen_through(HeatBlock& block, bool used) {
  Family& family = families_[block.family];
  ++family.seen;
  family.seen_hit += used ? 1 : 0;
  if (block.seen == HeatBlock::Seen::never) {
    ++family.first;
    family.first_hit += used ? 1 : 0;
  }
  block.seen = used ? HeatBlock::Seen::hot : HeatBlock::Seen::cold;
}

const HeatBlock* Heat::hit(AllocationId allocation, ChunkIndex chunk) {
  HeatBlock* block = find(allocation, chunk);
  if (block == nullptr || block->probe != chunk) return nullptr;
  drop_probe(*block);
  const bool before = block->seen == HeatBlock::Seen::hot;
  const std::uint32_t since = epoch_ - block->hit_at;
  if (before) families_[block->family].lasted += since;
  seen_through(*block, true);
  credit_ -= kHitCost.count();
  earnable_ += kHitCost.count() / 2;
  block->told_before = block->told_at;
  block->told_at = epoch_;
  block->streak = before ? block->streak + since : 1;
  block->hit_at = epoch_;
  return block;
}

void Heat::pass(Nanoseconds elapsed) {
  const std::int64_t passed = std::clamp<std::int64_t>(elapsed.count(), 0, kMostPassed);
  credit_ += static_cast<std::int64_t>(kShare * static_cast<double>(passed));
  credit_ = std::min(credit_, kHitCost.count() * kMostCredit);
}

void Heat::earn(Nanoseconds saved) {
  const std::int64_t earned = std::clamp<std::int64_t>(saved.count() / 4, 0, earnable_);
  earnable_ -= earned;
  credit_ = std::min(credit_ + earned, kHitCost.count() * kMostCredit);
}

void Heat::next_epoch(std::vector<ChunkRange>& map) {
  compare_columns();
  std::map<std::uint64_t, std::uint32_t> waiting;
  for (auto& [key, block] : blocks_) {
    // Set before this epoch began, and not used in all of it.
    if (block.probe && block.set_at < epoch_) {
      if (block.seen == HeatBlock::Seen::hot) {
        Family& family = families_[block.family];
        family.lasted += (epoch_ - block.hit_at) / 2.0;
        ++family.ended;
      }
      seen_through(block, false);
      block.streak = 0;
      if (columns_hold(block.family)) {
        for (HeatBlock* mate : column_of(block)) {
          if (mate->probe || mate->hit_at == epoch_) continue;
          mate->seen = HeatBlock::Seen::cold;
          mate->streak = 0;
        }
      }
    }
    if (block.probe && block.seen == HeatBlock::Seen::never) ++waiting[block.family];
  }
  for (auto& [id, family] : families_) {
    if (family.seen > 0) {
      family.rate += kNews * (static_cast<double>(family.seen_hit) / family.seen - family.rate);
    }
    family.seen = family.seen_hit = 0;
    const std::uint32_t enough = family.no_more ? kFewProbes : kFirstProbes;
    if (family.density != Density::undecided || family.first < enough || waiting[id] > 0) continue;
    family.density = family.first_hit >= kDense * family.first ? Density::dense : Density::sparse;
  }
  for (auto& [key, block] : blocks_) {
    if (density(block.family) != Density::dense) continue;
    if (const auto probe = drop_probe(block)) map.push_back(*probe);
  }
  // One of a column is enough, where it speaks for all.
  for (auto& [id, column] : columns_) {
    if (!columns_hold(column.front()->family)) continue;
    bool first = true;
    for (HeatBlock* block : column) {
      if (!block->probe || std::exchange(first, false)) continue;
      map.push_back(*drop_probe(*block));
    }
  }
  ++epoch_;
}

Density Heat::density(std::uint64_t family) const {
  const auto found = families_.find(family);
  return found == families_.end() ? Density::undecided : found->second.density;
}

double Heat::hot_share(std::uint64_t family) const {
  const auto found = families_.find(family);
  if (found == families_.end() || found->second.first == 0) return 1;
  return std::max(kLeastShare, static_cast<double>(found->second.first_hit) / found->second.first);
}

std::uint32_t Heat::first_probes(std::uint64_t family) const {
  const auto found = families_.find(family);
  return found == families_.end() ? 0 : found->second.first;
}

double Heat::stays_hot(const HeatBlock& block) const {
  const auto found = families_.find(block.family);
  const double usual = found == families_.end() ? 0 : (found->second.lasted + 1) / (found->second.ended + 1);
  return std::min(std::max(block.streak + 1.0, usual), kMostStay);
}

// What the whole range crosses, its hot part does.
double Heat::hot_crossings(const HeatBlock& block) const {
  return std::min(block.uses, block.crossings / hot_share(block.family));
}

double Heat::factor(AllocationId allocation, ChunkIndex chunk, Where at) const {
  const HeatBlock* block = this->block(allocation, chunk);
  if (block == nullptr || block->crossings <= 0) return 1;
  const Density density = this->density(block->family);
  if (density == Density::dense) return 1;
  // Who writes a row does not cross all of it, whatever it is told.
  if (density == Density::undecided) return std::min(1.0, block->uses / block->crossings);
  const double hot_factor = hot_crossings(*block) / block->crossings;
  // In HBM nothing tells. What came in because it was in use is taken to be so still, other memory as often as its
  // family is.
  if (hot(*block) || (at == Where::hbm && block->seen == HeatBlock::Seen::hot)) return hot_factor;
  return at == Where::hbm || block->seen == HeatBlock::Seen::never ? hot_factor * hot_share(block->family) : 0;
}

bool Heat::hot(const HeatBlock& block) const {
  return block.seen == HeatBlock::Seen::hot && block.hit_at + 1 >= epoch_;
}

Heat::Where Heat::where(const HeatBlock& block, const Residency& residency) {
  const std::vector<Chunk>& chunks = residency.chunks(block.range.allocation);
  bool host = false;
  for (std::uint32_t i = block.range.first.value; i < block.range.first.value + block.range.count; ++i) {
    if (i >= chunks.size() || chunks[i].moving || chunks[i].at == Placement::unpopulated) return Where::elsewhere;
    host = host || chunks[i].at == Placement::host;
  }
  return host ? Where::host : Where::hbm;
}

bool Heat::worth_watching() const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [this](const auto& entry) { return density(entry.second.family) != Density::dense; });
}

}  // namespace spillway::policy
