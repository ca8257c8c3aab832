// What an iteration asks of each chunk, as a mean over the last few. A caching allocator hands out other addresses in
// each iteration, mostly in turns, so one iteration tells only half of it: a chunk that is used in every second one is
// worth half of its crossings, and the same in both.
//
// Memory: eight bytes a chunk.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "policy/iteration_profile.hpp"
#include "policy/residency.hpp"
#include "policy/span_map.hpp"
#include "policy/use_crossings.hpp"

namespace spillway::policy {

class ChunkNeeds {
 public:
  // More iterations made no plan better, on the golden traces.
  static constexpr std::uint64_t kMostIterations = 4;

  void clear();
  // One more iteration; all weigh the same.
  void add(const IterationProfile& profile, const SpanMap& spans, UseCrossings& crossings);
  // Crossings of the chunk's bytes in an iteration: the mean over those that began after launch `born`, when its
  // allocation was made.
  [[nodiscard]] double crossings(AllocationId allocation, ChunkIndex chunk, LaunchNumber born) const;

 private:
  std::vector<LaunchNumber> first_launches_;                         // of the iterations
  std::unordered_map<AllocationId, std::vector<double>> crossings_;  // by chunk, summed
};

}  // namespace spillway::policy
