// A summary as a page for people, a line in a list of ranks, or JSON. `width` is that of the terminal; 0: none.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/trace_summary.hpp"

namespace spillway::tools {

// The first lines of the page: which trace, program, process, settings.
std::string stats_opening(const TraceSummary& summary);
std::string stats_page(const TraceSummary& summary, std::size_t most_functions, std::size_t width = 0);
// One line each, and the totals where they are of one run.
enum class WithTotals : std::uint8_t { no, yes };
std::string stats_list(const std::vector<TraceSummary>& summaries, WithTotals totals, std::size_t width = 0);
nlohmann::ordered_json stats_json(const TraceSummary& summary, std::size_t most_functions);

}  // namespace spillway::tools
