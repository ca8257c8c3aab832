// Which blocks get a probe, and where in them.
#include <algorithm>
#include <utility>

#include "policy/heat.hpp"

namespace spillway::policy {
namespace {

constexpr double kLeastRate = 0.03;  // a probe counts for so many hits at least
// Neighbours get places far apart.
std::uint64_t place_of(std::uint64_t index) { return index * 0x9E3779B97F4A7C15ULL >> 20U; }

}  // namespace

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

std::optional<ChunkRange> Heat::drop_probe(HeatBlock& block) {
  if (!block.probe) return std::nullopt;
  const ChunkRange range{block.range.allocation, *block.probe, 1};
  block.probe.reset();
  --probes_;
  return range;
}

}  // namespace spillway::policy
