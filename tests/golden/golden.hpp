// What the golden traces' test and table share: reading a recording and replaying it under a share of its peak.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "policy/replay.hpp"
#include "policy/shape_costs.hpp"
#include "tools/trace_events.hpp"

namespace spillway::golden {

inline constexpr double kShares[] = {0.8, 0.65, 0.5, 0.35};

struct Golden {
  std::string name;
  tools::TraceEvents trace;
  policy::ShapeCosts shapes;
  policy::Bytes peak;  // most memory that lived at once

  // Figures are of the last third of the launches: what comes before is learning.
  [[nodiscard]] policy::ReplayResult replay(policy::ModeName mode, double share) const;
  // The same, of the program going on: recordings end before a program that runs ahead of its device has shown the pace
  // of what was learned. Their last two iterations are repeated, `launches` launches in all; nothing is repeated if
  // memory is allocated or freed in all of them. Figures are of the last tenth.
  [[nodiscard]] policy::ReplayResult replay_on(double share, std::uint32_t lookahead, std::uint64_t iteration,
                                               std::uint64_t launches) const;
  [[nodiscard]] policy::Bytes budget(double share) const {
    return policy::Bytes(static_cast<std::uint64_t>(static_cast<double>(peak.count()) * share));
  }
};

// By name. Throws std::runtime_error, with the reason, if one cannot be read.
std::vector<std::filesystem::path> list(const std::filesystem::path& folder);
Golden load(const std::filesystem::path& file);
std::vector<std::byte> bytes_of(const std::filesystem::path& file);

}  // namespace spillway::golden
