// Whether traces are of one run: the ranks of one job, or processes that ran side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/trace_summary.hpp"

namespace spillway::tools {

// Nothing if they may be of one run; else one sentence that names two of them and why they are not.
std::optional<std::string> why_not_one_run(const std::vector<TraceSummary>& summaries);

}  // namespace spillway::tools
