#include "policy/allocation_lives.hpp"

#include <algorithm>

namespace spillway::policy {

void AllocationLives::requested(AllocationId id, std::uint64_t launches) {
  requests_.push_back(id);
  lives_[id] = {static_cast<std::uint32_t>(requests_.size()), launches, {}, {}};
}

AllocationLives::Life* AllocationLives::long_one(AllocationId id, std::uint64_t launches) {
  const auto life = lives_.find(id);
  return life != lives_.end() && 2 * (launches - life->second.born) >= launches ? &life->second : nullptr;
}

void AllocationLives::freed(AllocationId id, std::uint64_t launches, const Card& card) {
  Life& life = lives_[id];
  life.freed = launches;
  if (auto where = placement(id, life.order, card)) {
    where->found = life.found;
    freed_.emplace_back(*where, launches - life.born);
  }
}

const AllocationLives::Life* AllocationLives::find(AllocationId id) const {
  const auto life = lives_.find(id);
  return life == lives_.end() ? nullptr : &life->second;
}

std::vector<FinalPlacement> AllocationLives::placements(const Card& card) const {
  std::vector<FinalPlacement> all;
  for (std::uint32_t order = 1; order <= requests_.size(); ++order) {
    if (const auto where = placement(requests_[order - 1], order, card)) all.push_back(*where);
  }
  return all;
}

std::vector<FinalPlacement> AllocationLives::freed_after_half(std::uint64_t launches) const {
  std::vector<FinalPlacement> all;
  for (const auto& [where, there_for] : freed_) {
    if (2 * there_for >= launches) all.push_back(where);
  }
  std::sort(all.begin(), all.end(), [](const auto& one, const auto& other) { return one.order < other.order; });
  return all;
}

std::optional<FinalPlacement> AllocationLives::placement(AllocationId id, std::uint32_t order, const Card& card) const {
  const CardAllocation* allocation = card.find(id);
  if (allocation == nullptr || allocation->chunks.empty()) return std::nullopt;
  FinalPlacement placement{id, order, allocation->bytes, {}, {}, {}, took_turns_.contains(id)};
  for (std::uint32_t i = 0; i < allocation->chunks.size(); ++i) {
    const Bytes bytes = std::min(kChunk, allocation->bytes - kChunk * i);
    const Placement at = allocation->chunks[i].at;
    if (at == Placement::device || at == Placement::duplicated) placement.in_hbm += bytes;
    if (at == Placement::host) placement.on_host += bytes;
  }
  return placement;
}

}  // namespace spillway::policy
