// The uses that a replay's measured launches make of memory, chunk by chunk: what its bounds are of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/allocation_lives.hpp"
#include "policy/bounds.hpp"
#include "policy/card.hpp"
#include "policy/cost_table.hpp"
#include "policy/event.hpp"
#include "policy/shape_costs.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

class MeasuredUses {
 public:
  // Launches after `first` are measured.
  MeasuredUses(LaunchNumber first, const ShapeCosts& shapes, const CostTable& costs)
      : first_(first), shapes_(shapes), costs_(costs) {}

  // A measured launch of these shapes on the card as it is: an address may be another's later. `window`: of all memory
  // that can move, as it is then.
  void note(LaunchNumber number, const std::vector<LaunchShapeId>& shapes, const Card& card, Bytes window);
  // `last`: of all launches.
  [[nodiscard]] Bounds bounds(const AllocationLives& lives, std::uint64_t last) const;
  // The largest that was told.
  [[nodiscard]] Bytes window() const { return window_; }

 private:
  // Uses by a shape, as of an epoch of the card.
  struct KnownUses {
    std::uint64_t epoch = 0;
    std::vector<ChunkUse> uses;
  };

  LaunchNumber first_;
  const ShapeCosts& shapes_;
  CostTable costs_;
  std::unordered_map<LaunchShapeId, KnownUses> known_;
  std::map<std::pair<AllocationId, std::uint32_t>, BoundChunk> used_;
  std::size_t noted_ = 0;
  double compute_seconds_ = 0;
  Bytes window_;
};

}  // namespace spillway::policy
