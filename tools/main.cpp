// The `spillway` command: finds the sub-command in the table, parses its flags, runs it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "policy/settings.hpp"
#include "tools/command.hpp"
#include "tools/command_line.hpp"
#include "tools/terminal.hpp"
#include "tools/usage_mistake.hpp"

namespace {

using namespace spillway::tools;

// Wrapped beside the flags; the example is not, as it is there to be copied.
std::string help_page(const std::string& help) {
  constexpr std::size_t kDescriptions = 30;  // where CLI11 begins them
  const std::size_t example = std::min(help.find("\nExample:\n"), help.size());
  return prose_for(terminal_of_output(), help.substr(0, example), kDescriptions) + help.substr(example);
}

// A reader that has gone away ends no command by the signal: writing fails, and finish() knows why. A handler, not
// SIG_IGN: a program that is started from here must not inherit it.
void survive_closed_pipes() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int /*signal*/) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &action, nullptr);
}

// A reader that has gone away is no problem of ours; a full disk is.
int finish(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (errno == EPIPE) return code;
  return complain("cannot write the output: " + std::string(std::strerror(errno)), code == kSuccess ? kFailure : code);
}

int run_command_line(std::vector<std::string> words) {
  if (!words.empty() && words.front() == kHelpCommand) {
    words.erase(words.begin());
    words.insert(words.begin() + (words.empty() ? 0 : 1), "--help");
  }
  CommandLine line;
  try {
    line.parse(words);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = line.app.get_subcommands();
    if (chosen.empty() && !words.front().starts_with('-')) return unknown_command(words.front());
    print(help_page(chosen.empty() ? line.app.help() : chosen.front()->help()));
    return kSuccess;
  } catch (const CLI::CallForVersion&) {
    if (!words.front().starts_with('-')) return unknown_command(words.front());
    if (words.size() > 1)
      return complain("unknown argument " + spillway::policy::quoted(words[1]) + "; see `spillway --help`");
    print("spillway " SPILLWAY_VERSION "\n");
    return kSuccess;
  } catch (const CLI::ParseError& error) {
    return usage_mistake(line.app, error, words);
  }
  return line.chosen()->run();
}

}  // namespace

int main(int argc, char** argv) {
  survive_closed_pipes();
  try {
    return finish(run_command_line({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    return complain(std::string("unexpected failure: ") + error.what(), kFailure);
  }
}
