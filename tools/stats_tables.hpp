// The breakdowns of a run as text and as JSON: `spillway stats --by`.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/run_tables.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {

enum class Section : std::uint8_t { by_class, by_rule, by_kernel, by_iteration, by_allocation };

// "class", "rule", "kernel", "iteration", "allocation", in the order of Section.
const std::vector<std::string>& section_names();

// `top`: rows of kernels and allocations; of iterations twice as many, the first and the last ones. JSON holds `top`
// kernels and allocations and every iteration.
// `width` is that of the terminal; 0: none, and nothing is shortened.
std::string section_text(const RunTables& tables, Section section, std::size_t top, std::size_t width = 0);
nlohmann::ordered_json section_json(const RunTables& tables, Section section, std::size_t top);

// What moved without a decision and so is in no section: a line, or nothing. `summary` is of the same trace.
std::string outside_text(const RunTables& tables, const TraceSummary& summary);

}  // namespace spillway::tools
