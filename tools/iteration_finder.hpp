// Where the iterations of a recorded run end, whatever its mode was: by the forecast that the adaptive mode uses, fed
// with the trace's launches. Fewer than eight launches are no iteration, unless a graph is one of them. Launch times
// are those at which the program asked for them.
//
// Memory: 14.5 MiB, and 512 KiB of places. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "policy/forecast.hpp"

namespace spillway::tools {

// Graph launches have no shape: this bit and the graph's number stand for it.
inline constexpr std::uint32_t kGraphShape = std::uint32_t{1} << 31U;

// The addresses that a shape of the past points to, sorted; empty if it is no longer known.
using PointersOf = std::function<const std::vector<std::uint64_t>&(policy::LaunchShapeId)>;

class IterationFinder {
 public:
  // True if this launch is the last of an iteration, or the first iteration has just been found.
  bool launched(policy::LaunchKey key, policy::LaunchShapeId shape, const PointersOf& pointers);

  // Counts from 1 with the first iteration that is found; 0 before.
  [[nodiscard]] std::uint64_t iteration() const { return iteration_; }
  [[nodiscard]] policy::LaunchCount period() const { return forecast_ ? forecast_->period() : policy::LaunchCount(); }

 private:
  [[nodiscard]] bool long_enough(policy::LaunchCount period) const;
  [[nodiscard]] bool same_memory(policy::LaunchCount period, const PointersOf& pointers) const;

  std::unique_ptr<policy::Forecast> forecast_;  // made with the first launch
  std::uint64_t iteration_ = 0;
};

}  // namespace spillway::tools
