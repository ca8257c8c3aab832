// What is said of a command line that cannot be parsed: what stands where, what is wrong with it, and the remedy.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace spillway::tools {

// Complains, and gives the exit code.
int usage_mistake(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);
int unknown_command(const std::string& word);

}  // namespace spillway::tools
