// What no policy can beat: the least traffic over the link for a sequence of uses and a window, and the least time.
//
// Belady's question, asked with what this machine can do: chunks of any size, use in place allowed, the way back
// counted for what was written. Solved as a lower bound by prices: each stretch of time has a price for a resident
// byte, every chunk then chooses its cheapest course alone, and the prices are raised where too much is resident. By
// weak duality any prices give a true bound; the search only makes it tighter. The sequence is taken to repeat: the
// bound is that of the steady state, without what a cold start or an end would add or save. Memory that is allocated or
// freed within the sequence does not go round: its first arrival in HBM crosses nothing, and its end sends nothing
// back.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/card.hpp"
#include "policy/cost_table.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

struct BoundUse {
  std::uint32_t time = 0;  // launches since the beginning
  double reads = 0;        // bytes that cross if in place
  double writes = 0;
};

struct BoundChunk {
  double bytes = 0;
  bool written = false;        // has to go back when it leaves
  std::vector<BoundUse> uses;  // in order of time
  bool begins = false;         // allocated within the sequence: populated wherever it is first used
  bool ends = false;           // freed within the sequence, after its last use
};

// Which crossings count.
enum class Traffic : std::uint8_t { both, in, out };

// Bytes that must cross, at least. `duration`: launches in all.
double least_traffic(const std::vector<BoundChunk>& chunks, double window, std::uint32_t duration, Traffic traffic);

struct Bounds {
  double traffic = 0;  // bytes, both ways
  double seconds = 0;  // max(compute, link)
  double compute_seconds = 0;
};
Bounds compute_bounds(const std::vector<BoundChunk>& chunks, Bytes window, std::uint32_t duration,
                      double compute_seconds, const CostTable& costs);

}  // namespace spillway::policy
