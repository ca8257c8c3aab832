// Whether traces are of one run: the ranks of one job, or processes that ran side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/trace_summary.hpp"

namespace spillway::tools {

// Nothing if they may be of one run; else one sentence, without the remedy, that names two of
// them and why they are not.
std::optional<std::string> why_not_one_run(const std::vector<TraceSummary>& summaries);
// What may still be two runs: different programs of which neither started the other, nor one parent both. A sentence.
std::optional<std::string> different_programs(const std::vector<TraceSummary>& summaries);

}  // namespace spillway::tools
