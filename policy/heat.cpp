#include "policy/heat.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace spillway::policy {
namespace {

constexpr double kNews = 0.25;        // weight of an epoch in a family's rate
constexpr double kLeastRate = 0.03;   // a probe counts for so many hits at least
// Epochs that anything is expected to stay in use. What has lasted ends some time, and beyond this more is lost by what
// leaves in exchange, where that is in use as well and nobody tells.
constexpr double kMostStay = 8;
constexpr double kLeastShare = 0.02;  // of a family that is hot
// No iteration counts for more.
constexpr std::int64_t kMostPassed = 1'000'000'000;

std::uint64_t spread_bits(std::uint64_t value) {
  value *= 0x9E3779B97F4A7C15ULL;
  return value ^ (value >> 29U);
}

// Neighbours get places far apart.
std::uint64_t place_of(std::uint64_t index) { return index * 0x9E3779B97F4A7C15ULL >> 20U; }

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

void Heat::find_columns() {
  columns_.clear();
  for (auto& [key, block] : blocks_) columns_[block.column].push_back(&block);
}

const std::vector<HeatBlock*>& Heat::column_of(const HeatBlock& block) const { return columns_.at(block.column); }

bool Heat::columns_hold(std::uint64_t family) const {
  const auto found = families_.find(family);
  return found != families_.end() && found->second.columns_hold();
}

bool Heat::spoken_for(const HeatBlock& block) const {
  if (!columns_hold(block.family)) return false;
  const std::vector<HeatBlock*>& column = column_of(block);
  return std::any_of(column.begin(), column.end(),
                     [&](const HeatBlock* mate) { return mate != &block && (mate->probe || mate->hit_at == epoch_); });
}

// A column tells something where at least two of its probes were there in the epoch before this one. Those that have
// not been used by now were not used with the others.
void Heat::compare_columns() {
  const std::uint32_t then = epoch_ - 1;
  if (then == 0) return;
  for (const auto& [id, column] : columns_) {
    std::uint32_t used = 0, unused = 0;
    for (const HeatBlock* block : column) {
      if (block->told_at == then || block->told_before == then) {
        ++used;
      } else if (block->probe && block->set_at <= then) {
        ++unused;
      }
    }
    if (used == 0 || used + unused < 2) continue;
    Family& family = families_.at(column.front()->family);
    ++(unused == 0 ? family.together : family.apart);
  }
}

std::vector<const HeatBlock*> Heat::spread(const HeatBlock& hit, std::vector<ChunkRange>& map) {
  std::vector<const HeatBlock*> others;
  if (!columns_hold(hit.family)) return others;
  for (HeatBlock* mate : column_of(hit)) {
    if (mate->hit_at == epoch_) continue;
    if (const auto probe = drop_probe(*mate)) map.push_back(*probe);
    mate->seen = HeatBlock::Seen::hot;
    mate->streak = hit.streak;
    mate->hit_at = epoch_;
    others.push_back(mate);
  }
  return others;
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

std::optional<ChunkRange> Heat::drop_probe(HeatBlock& block) {
  if (!block.probe) return std::nullopt;
  const ChunkRange range{block.range.allocation, *block.probe, 1};
  block.probe.reset();
  --probes_;
  return range;
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

std::optional<ChunkIndex> Heat::place_for_probe(const HeatBlock& block, const Residency& residency) const {
  const std::vector<Chunk>& chunks = residency.chunks(block.range.allocation);
  // Another one each time, beginning in the middle.
  for (std::uint32_t i = 0; i < block.range.count; ++i) {
    const std::uint32_t index =
        block.range.first.value + (block.range.count / 2 + block.probes + i) % block.range.count;
    if (index >= chunks.size() || chunks[index].moving || chunks[index].at != Placement::host) continue;
    if (residency.chunk_bytes(block.range.allocation, {index}) == kChunk) return ChunkIndex{index};
  }
  return std::nullopt;
}

int Heat::order(const Blocks::value_type& entry) const {
  const HeatBlock& block = entry.second;
  if (block.probe || block.hit_at == epoch_) return -1;
  const Density density = this->density(block.family);
  if (density == Density::dense) return -1;
  // Nothing follows from a few blocks: they are asked once.
  if (density == Density::undecided) return block.seen == HeatBlock::Seen::never ? 0 : -1;
  if (spoken_for(block)) return -1;
  const auto beside = [&](std::uint32_t chunk) {
    const HeatBlock* other = this->block(block.range.allocation, {chunk});
    return other != nullptr && hot(*other);
  };
  // Was it used for a moment, or does it stay hot?
  if (hot(block)) return 1;
  // What is used together often lies together.
  const bool near = beside(block.range.first.value + block.range.count) ||
                    (block.range.first.value > 0 && beside(block.range.first.value - 1));
  if (near) return 2;
  const std::vector<HeatBlock*>& column = column_of(block);
  const bool mates = std::any_of(column.begin(), column.end(), [this](const HeatBlock* mate) { return hot(*mate); });
  if (mates) return 2;
  return block.seen == HeatBlock::Seen::never ? 3 : 4;
}

// A verdict need not wait for more first probes than there are blocks on the host.
void Heat::look_for_more(const Residency& residency) {
  for (auto& [id, family] : families_) family.no_more = family.density == Density::undecided;
  for (const auto& [key, block] : blocks_) {
    Family& family = families_.at(block.family);
    if (!family.no_more || block.seen != HeatBlock::Seen::never) continue;
    if (block.probe || place_for_probe(block, residency)) family.no_more = false;
  }
}

void Heat::set_probes(const Residency& residency, std::span<const ChunkRange> coming_in,
                      std::vector<ChunkRange>& unmap) {
  look_for_more(residency);
  if (credit_ <= 0) return;
  const auto most = static_cast<double>(credit_) / static_cast<double>(kHitCost.count());
  double expected = 0;
  std::map<std::uint64_t, std::uint32_t> first_out;  // first probes under way, of undecided families
  for (const auto& [key, block] : blocks_) {
    if (!block.probe) continue;
    expected += std::max(families_.at(block.family).rate, kLeastRate);
    if (block.seen == HeatBlock::Seen::never) ++first_out[block.family];
  }
  struct Wish {
    int order;
    std::uint64_t place;
    HeatBlock* block;
  };
  std::vector<Wish> wishes;
  std::uint64_t number = 0;
  for (auto& entry : blocks_) {
    ++number;
    const ChunkRange& range = entry.second.range;
    const bool comes = std::any_of(coming_in.begin(), coming_in.end(), [&range](const ChunkRange& other) {
      return other.allocation == range.allocation && other.first.value < range.first.value + range.count &&
             range.first.value < other.first.value + other.count;
    });
    if (comes) continue;
    if (const int order = this->order(entry); order >= 0) wishes.push_back({order, place_of(number), &entry.second});
  }
  std::stable_sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) {
    return std::pair(a.order, a.place) < std::pair(b.order, b.place);
  });
  const std::size_t begin = unmap.size();
  for (const Wish& wish : wishes) {
    if (unmap.size() - begin >= kMostAtOnce) return;
    HeatBlock& block = *wish.block;
    const Family& family = families_.at(block.family);
    if (spoken_for(block)) continue;
    if (expected + std::max(family.rate, kLeastRate) > most) return;
    if (family.density == Density::undecided && first_out[block.family] + family.first >= kFirstProbes) continue;
    const auto chunk = place_for_probe(block, residency);
    if (!chunk) continue;
    if (family.density == Density::undecided) ++first_out[block.family];
    set_probe(block, *chunk);
    unmap.push_back({block.range.allocation, *chunk, 1});
    expected += std::max(family.rate, kLeastRate);
  }
}

void Heat::leave(const HeatBlock& leaving, std::optional<ChunkIndex> probe) {
  HeatBlock* block = find(leaving.range.allocation, leaving.range.first);
  if (block == nullptr) return;
  if (probe) set_probe(*block, *probe);
  block->seen = HeatBlock::Seen::cold;  // until it says otherwise
  block->streak = 0;
}

void Heat::set_probe(HeatBlock& block, ChunkIndex chunk) {
  if (!block.probe) ++probes_;
  block.probe = chunk;
  block.set_at = epoch_;
  ++block.probes;
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

void Heat::unset(std::vector<ChunkRange>& map) {
  for (auto& [key, block] : blocks_) {
    if (const auto probe = drop_probe(block)) map.push_back(*probe);
  }
}

void Heat::unset(const ChunkRange& range, std::vector<ChunkRange>& map) {
  for (std::uint32_t index = range.first.value; index < range.first.value + range.count;) {
    HeatBlock* block = find(range.allocation, {index});
    if (block == nullptr) {
      ++index;
      continue;
    }
    const bool inside = block->probe && block->probe->value >= range.first.value &&
                        block->probe->value < range.first.value + range.count;
    if (inside) map.push_back(*drop_probe(*block));
    index = block->range.first.value + block->range.count;
  }
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
  if (block == nullptr || density(block->family) != Density::sparse || block->crossings <= 0) return 1;
  const double hot_factor = hot_crossings(*block) / block->crossings;
  // In HBM nothing tells, so it counts as hot.
  if (at == Where::hbm || hot(*block)) return hot_factor;
  return block->seen == HeatBlock::Seen::never ? hot_factor * hot_share(block->family) : 0;
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
