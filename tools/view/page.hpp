// The page: the front end that was built from tools/viewer and is embedded here, with a trace's data put into it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/view/trace_view.hpp"

namespace spillway::tools::view {

// The front end, with a mark where the data belongs. Empty if this build has none (no Node.js when it was built).
std::string_view page_template();

// One self-contained HTML page, of all these traces: it shows one at a time, and has a switch.
std::string make_page(std::string_view page, std::span<const ViewData> traces);

// Of which runs (run_name.hpp) the page at `path` is; none if that is no page, or the page does not say.
std::vector<std::string> runs_of_page(const std::string& path);

// Every page made here begins with this: a page may be written over a page, never over something else.
inline constexpr std::string_view kPageMark = "<!doctype html><!-- made by spillway view -->";

}  // namespace spillway::tools::view
