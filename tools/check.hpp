// What `spillway check` says about a policy file, from its text: every mistake, and what its rules would match in a
// trace. Pure but for the trace, which the caller reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/policy_file.hpp"
#include "tools/rule_coverage.hpp"

namespace spillway::tools {

struct CheckedTrace {
  std::string path;
  std::string state;  // "whole", or what is wrong with it
  CoverageReport coverage;
};

// One line per mistake, `file:line:column: ...` as editors know it, and a line that counts them; for stderr.
std::string mistakes_text(const policy::PolicyFileReading& reading, std::string_view file_name);

// For a file without mistakes: what it holds, and a table of its rules if there is a trace; for stdout.
std::string check_text(const policy::PolicyFileReading& reading, std::string_view file_name,
                       const std::optional<CheckedTrace>& trace, std::size_t width = 0);

// All of it as one JSON object and a line feed.
std::string check_json(const policy::PolicyFileReading& reading, std::string_view file_name,
                       const std::optional<CheckedTrace>& trace);

}  // namespace spillway::tools
