// The whole command line as CLI11 sees it, built from the table of commands: for parsing, completions and the man page.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/command.hpp"

namespace spillway::tools {

// What an option is for, and its default where it has one: for --help and the man page.
std::string described(const CLI::Option& option);

struct CommandLine {
  CommandLine();
  // Throws CLI11's exceptions.
  void parse(std::vector<std::string> arguments);
  // The command that was parsed.
  [[nodiscard]] Command* chosen() const;

  CLI::App app;
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands;  // in the table's order
};

}  // namespace spillway::tools
