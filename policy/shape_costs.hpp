// What each launch shape touches and how long it computes: what a replay prices. Tests know it; for a recorded trace it
// is inferred from the pointers, the copies and the kernel times in it.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// A stretch of memory as one launch uses it. Passes: how often its bytes cross the link when they are on the host.
struct PricedTouch {
  Address address;
  Bytes bytes;
  double reads = 1;
  double writes = 0;
};

struct ShapeCost {
  std::vector<PricedTouch> touches;
  double compute_seconds = 0;  // when everything is resident
};

using ShapeCosts = std::unordered_map<LaunchShapeId, ShapeCost>;

// Extents come from the pointers of the whole trace (a use reaches to the next one, or as far as reach.hpp says),
// compute times from KernelTimed, else from the bytes at HBM speed. The shortest time counts, of all launches of a
// function with as many threads and bytes: some of them had their memory on the host. What HBM could not have given in
// that time is more than the kernel uses. Reads and writes are not known: half of each use is taken as written, except
// by matrix products, whose operands are read by the default crossings. A tensor of a list that several launches name
// one after the other is done in parts.
ShapeCosts infer_shape_costs(std::span<const Event> events, const CostTable& costs);

}  // namespace spillway::policy
