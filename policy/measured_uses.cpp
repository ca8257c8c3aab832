#include "policy/measured_uses.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

// The bounds are of this many uses at most: fewer uses need no more traffic, so they stay bounds.
constexpr std::size_t kMostUses = std::size_t{1} << 24;

}  // namespace

void MeasuredUses::note(LaunchNumber number, const std::vector<LaunchShapeId>& shapes, const Card& card, Bytes window) {
  window_ = std::max(window_, window);
  const auto time = static_cast<std::uint32_t>(number.value - first_.value - 1);
  for (const LaunchShapeId shape : shapes) {
    const auto cost = shapes_.find(shape);
    if (cost == shapes_.end()) continue;
    compute_seconds_ += std::max(cost->second.compute_seconds, costs_.launch / 2);
    KnownUses& known = known_[shape];
    if (known.epoch != card.epoch()) {
      known = {card.epoch(), {}};
      card.uses(cost->second, known.uses);
    }
    if (noted_ >= kMostUses) continue;
    noted_ += known.uses.size();
    for (const ChunkUse& use : known.uses) {
      BoundChunk& chunk = used_[{use.allocation, use.chunk}];
      if (chunk.uses.empty()) {
        const Bytes rest = card.find(use.allocation)->bytes - kChunk * use.chunk;
        chunk.bytes = static_cast<double>(std::min(kChunk, rest).count());
      }
      chunk.written = chunk.written || use.writes > 0;
      if (chunk.uses.empty() || chunk.uses.back().time != time) chunk.uses.push_back({time, 0, 0});
      chunk.uses.back().reads += static_cast<double>(use.reads);
      chunk.uses.back().writes += static_cast<double>(use.writes);
    }
  }
}

// Memory that is freed after the last launch was there for all of them.
Bounds MeasuredUses::bounds(const AllocationLives& lives, std::uint64_t last) const {
  std::vector<BoundChunk> all;
  for (const auto& [key, used] : used_) {
    all.push_back(used);
    const AllocationLives::Life* life = lives.find(key.first);
    if (life == nullptr) continue;
    all.back().begins = life->born > first_.value;
    all.back().ends = life->freed && *life->freed < last;
  }
  const auto duration = static_cast<std::uint32_t>(last - std::min(last, first_.value));
  return compute_bounds(all, window_, duration, compute_seconds_, costs_);
}

}  // namespace spillway::policy
