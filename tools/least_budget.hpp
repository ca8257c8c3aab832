// The least device budget under which a recorded run is refused no memory, by replays.
#pragma once

#include <string>

#include "policy/policy_file.hpp"
#include "policy/shape_costs.hpp"
#include "tools/trace_events.hpp"

namespace spillway::tools {

// In whole MiB, between one that refuses and what was free on the recorded card; zero if none is found. Launches refuse
// nothing, and take the time of a replay: what is found without them is tried with them.
policy::Bytes find_least_budget(const TraceEvents& trace, const policy::PolicyFile& policy, policy::Bytes refusing,
                                const policy::ShapeCosts& shapes);

// "400MiB", as --device-budget takes it: of a budget that is to be set, no byte is rounded away.
std::string budget_text(policy::Bytes budget);

}  // namespace spillway::tools
