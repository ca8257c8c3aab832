// The events of a trace, whole, as a replay needs them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/event.hpp"
#include "policy/settings.hpp"
#include "policy/units.hpp"
#include "tools/cost_cache.hpp"
#include "tools/run_follower.hpp"

namespace spillway::tools {

struct TraceEvents {
  std::vector<policy::Event> events;
  std::string path;
  std::string state;  // "whole", or what is wrong with the file
  std::uint64_t launches = 0;
  policy::Settings settings;  // the recorded run's; those that this version does not know keep their defaults
  TraceCosts costs;           // to price it with
  IterationsSeen iterations;  // as stats finds them
  std::uint64_t iteration_launches = 0;  // of the last whole one; 0: there was none
  std::uint64_t dropped = 0;             // events the recorder dropped: the replay is not exact
  // What the recorded run did, which a replay decides anew.
  bool simulated = false;  // on a simulated device: its times say nothing of a GPU
  bool ruled = false;      // under rules, which the trace does not hold
  policy::Bytes moved_in;  // over the link, by moves
  policy::Bytes moved_out;
  std::set<policy::AllocationId> probed;
};

// Devices that only the header names are put in front. Returns what is wrong with a file that cannot be read.
std::optional<std::string> read_events(const std::string& path, TraceEvents& events);

}  // namespace spillway::tools
