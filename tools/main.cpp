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

namespace {

using namespace spillway::tools;

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& letter : text) letter = letter == '\n' ? ' ' : letter;
  return text;
}

std::string arguments_of(const std::string& command) {
  for (const CommandRow& row : command_table()) {
    if (command == row.name) return row.arguments;
  }
  return {};
}

int unknown_command(const std::string& word) {
  std::vector<std::string_view> known;
  for (const CommandRow& row : command_table()) known.emplace_back(row.name);
  std::string text = "unknown command " + spillway::policy::quoted(word);
  if (const auto near = spillway::policy::nearest(word, known)) text += "; did you mean " + std::string(*near) + "?";
  return complain(text + "; see `spillway --help`");
}

// All that is required and not there, as the usage line calls it: " TRACE, --format, --output".
std::string missing_of(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    std::string name = option->get_name(option->get_positional());
    if (option->get_positional())
      name = arguments_of(command.get_name()).substr(0, arguments_of(command.get_name()).find_first_of(" ."));
    text += (text.empty() ? " " : ", ") + name;
  }
  return text;
}

// What CLI11 says, and what else may have been meant.
int usage_mistake(const CLI::App& app, const CLI::ParseError& error, const std::string& word) {
  std::string text = one_line(error.what());
  const CLI::App* command = app.get_subcommands().empty() ? nullptr : app.get_subcommands().front();
  if (command == nullptr) {
    if (word.empty()) {
      text = "no command given";
    } else if (word.front() != '-') {
      return unknown_command(word);
    }
  }
  if (command != nullptr && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    text = "missing:" + missing_of(*command) + "; usage: spillway " + command->get_name() + " " +
           arguments_of(command->get_name());
  }
  if (command != nullptr && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !command->remaining().empty()) {
    text = "unknown " + std::string(command->remaining().front().starts_with("-") ? "flag " : "argument ") +
           spillway::policy::quoted(command->remaining().front());
    std::vector<std::string> names;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::vector<std::string_view> flags(names.begin(), names.end());
    if (const auto near = spillway::policy::nearest(command->remaining().front(), flags)) {
      text += "; did you mean " + std::string(*near) + "?";
    }
  }
  const std::string help = command == nullptr ? "spillway --help" : "spillway " + command->get_name() + " --help";
  return complain(text + "; see `" + help + "`");
}

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

int run_command_line(int argc, char** argv) {
  CommandLine line;
  try {
    line.parse({argv + 1, argv + argc});
  } catch (const CLI::CallForHelp&) {
    const auto chosen = line.app.get_subcommands();
    if (chosen.empty() && argv[1][0] != '-') return unknown_command(argv[1]);
    print(help_page(chosen.empty() ? line.app.help() : chosen.front()->help()));
    return kSuccess;
  } catch (const CLI::CallForVersion&) {
    if (argv[1][0] != '-') return unknown_command(argv[1]);
    if (argc > 2) return complain("unknown argument " + spillway::policy::quoted(argv[2]) + "; see `spillway --help`");
    print("spillway " SPILLWAY_VERSION "\n");
    return kSuccess;
  } catch (const CLI::ParseError& error) {
    return usage_mistake(line.app, error, argc > 1 ? argv[1] : "");
  }
  return line.chosen()->run();
}

}  // namespace

int main(int argc, char** argv) {
  survive_closed_pipes();
  try {
    return finish(run_command_line(argc, argv));
  } catch (const std::exception& error) {
    return complain(std::string("unexpected failure: ") + error.what(), kFailure);
  }
}
