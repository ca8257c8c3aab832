// What an iteration costs in place, by stretch: of each chunk, were it on the host, and of the launches where things
// are.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/iteration_profile.hpp"
#include "policy/residency.hpp"
#include "policy/span_map.hpp"
#include "policy/stream_schedule.hpp"
#include "policy/use_crossings.hpp"

namespace spillway::policy {

// What one launch of a profile takes, in seconds.
struct LaunchTime {
  double compute = 0;  // with everything in HBM
  double link = 0;     // for what is on the host now
};
// By position. The compute is what kernel times have told, else what its bytes take at the speed of HBM.
std::vector<LaunchTime> launch_times(const IterationProfile& profile, const Forecast& forecast, const SpanMap& spans,
                                     const Residency& residency, const LaunchKnowledge& known);

// First positions of stretches that take about as long, each `least` seconds or more. Empty if the iteration is too
// short for it to be worth the while.
std::vector<std::uint32_t> cut_stretches(std::span<const LaunchTime> launches, double least);
std::vector<Stretch> stretch_times(std::span<const LaunchTime> launches, std::span<const std::uint32_t> starts);

class StreamNeeds {
 public:
  using Seconds = std::array<float, kMostStretches>;

  StreamNeeds(const IterationProfile& profile, const SpanMap& spans, UseCrossings& crossings,
              std::span<const std::uint32_t> starts, const CostTable& costs);
  [[nodiscard]] const Seconds& of(AllocationId allocation, ChunkIndex chunk) const;
  // How much of either is in both: 0 to 1.
  [[nodiscard]] double alike(const StreamNeeds& other) const;

 private:
  std::unordered_map<AllocationId, std::vector<Seconds>> chunks_;
};

}  // namespace spillway::policy
