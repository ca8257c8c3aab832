// The user's folder of probed costs ($XDG_CACHE_HOME/spillway, else ~/.cache/spillway): a file a device, as
// policy/cost_file.hpp describes it.
#pragma once

#include <optional>
#include <string>

#include "policy/cost_file.hpp"
#include "policy/trace/header.hpp"

namespace spillway::tools {

// Makes the folder where it is missing. Returns what went wrong, with what to do, or nothing; `path` is the file.
std::optional<std::string> save_costs(const policy::CostFile& file, std::string& path);

// The costs to price a recorded run with, and where they come from, for people.
struct TraceCosts {
  policy::CostTable costs;
  std::string source = "built in";
  std::string problem;  // of a table or file that was left alone for it: one sentence; empty if there is none
};
// What the run itself went by, if its machine had been probed before; else a file here of its device and driver; else
// the built-in table.
TraceCosts costs_of_trace(const policy::trace::TraceHeader& header);

}  // namespace spillway::tools
