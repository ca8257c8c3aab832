// Cuts the managed memory of a device into the planner's pieces: runs of chunks that iterations use alike.
#pragma once

#include <vector>

#include "policy/access_history.hpp"
#include "policy/chunk_needs.hpp"
#include "policy/classes.hpp"
#include "policy/heat.hpp"
#include "policy/iteration_profile.hpp"
#include "policy/planner.hpp"
#include "policy/residency.hpp"
#include "policy/span_map.hpp"

namespace spillway::policy {

// What a rule says about a span, or an allocation as a whole.
struct Pin {
  Piece::Pinned pinned = Piece::Pinned::no;
  std::uint16_t rule = 0;
  EvictClass evict = EvictClass::normal;
  bool may_stream = true;
  std::uint32_t prefetch_distance = 0;  // launches
};

// What a plan is made from; all of the same moment.
struct Learned {
  const IterationProfile& profile;
  const AccessHistory& history;
  const Classes& classes;
  const SpanMap& spans;
  const std::vector<Pin>& pins;  // by span id; empty: no rules
  const Heat& heat;
  const ChunkNeeds& needs;
};

// Appends the pieces of one allocation, in order of offset, none larger than 32 MiB: the size from which a call is
// worth its cost. Chunks that are moving or have no place yet are left out; returns how many, to be planned next time.
// `whole`: what holds where no span says otherwise. `born`: the launch before which the allocation was made.
std::uint32_t cut_pieces(AllocationId allocation, LaunchNumber born, const Pin& whole, const Learned& learned,
                         const Residency& residency, std::vector<Piece>& out);

}  // namespace spillway::policy
