// A summary as a page for people, a line in a list of ranks, or JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/trace_summary.hpp"

namespace spillway::tools {

std::string stats_page(const TraceSummary& summary, std::size_t most_functions);
// One line each, and the totals.
std::string stats_list(const std::vector<TraceSummary>& summaries);
nlohmann::ordered_json stats_json(const TraceSummary& summary, std::size_t most_functions);

}  // namespace spillway::tools
