// Which run a trace is of, in a word that can stand in any file made of it: what one run left is not replaced by what
// is made of another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::tools {

// "node1/4242/2026-01-02T03:04:05+00:00": host, process and start, of letters, digits and ./:+-_ only. Empty if the
// trace does not say when it began.
std::string run_name(const std::string& host, std::uint64_t pid, const std::string& start);

// The name that `text` begins with, up to what can stand in none.
std::string leading_run_name(std::string_view text);

// What to complain of if `output` holds one of the runs `there` that is none of `runs`; nothing if it does not.
std::optional<std::string> replaces_other_run(const std::string& output, const std::vector<std::string>& there,
                                              const std::vector<std::string>& runs);

}  // namespace spillway::tools
