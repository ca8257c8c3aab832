// Which spans may be used sparsely: large ones that are named by launches of which nobody can say how far they reach
// (attention over a paged cache, look-ups), or whose measured times say that little of them crosses the link. What a
// rule has placed, and optimizer states, are none. Candidates are probed (heat.hpp); that decides.
#pragma once

#include <vector>

#include "policy/heat.hpp"
#include "policy/pieces.hpp"
#include "policy/use_crossings.hpp"

namespace spillway::policy {

inline constexpr Bytes kLeastSparse = 32_MiB;

// In the order of the profile's spans.
std::vector<SparseRange> sparse_candidates(const Learned& learned, const LaunchKnowledge& launches);

}  // namespace spillway::policy
