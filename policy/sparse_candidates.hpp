// Which spans may be used sparsely: large ones that are named by launches of which nobody can say how far they reach
// (attention over a paged cache, look-ups), or whose measured times say that little of them crosses the link. What a
// rule has placed, and optimizer states, are none. Candidates are probed (heat.hpp); that decides.
#pragma once

#include <vector>

#include "policy/access_history.hpp"
#include "policy/heat.hpp"
#include "policy/pieces.hpp"

namespace spillway::policy {

inline constexpr Bytes kLeastSparse = 32_MiB;

// What is known of launches, beside what is `Learned` of spans.
struct LaunchKnowledge {
  const LaunchBook& book;
  const FunctionBook& functions;
  const LearnedCrossings& crossings;
  const CostTable& costs;
};

// In the order of the profile's spans.
std::vector<SparseRange> sparse_candidates(const Learned& learned, const LaunchKnowledge& launches);

}  // namespace spillway::policy
