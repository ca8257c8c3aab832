// What a sub-command of `spillway` is. One file per command, one row each in command_table.cpp; main, the help, the
// completions and the man page are made from that table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace spillway::tools {

// Exit codes of every command. `run` ends as the program ends.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;  // it ran, and the answer is no: a trace that cannot be read, a machine not servable
inline constexpr int kUsageMistake = 2;  // flags, arguments, settings or a policy file

class Command {
 public:
  virtual ~Command() = default;
  virtual void add_options(CLI::App& app) = 0;
  // For a command whose row takes a program: all from the program's name on, which is not parsed as flags of ours.
  virtual void set_program(std::vector<std::string> /*program*/) {}
  // Prints its result on stdout, problems through complain().
  virtual int run() = 0;
};

enum class Takes : std::uint8_t { arguments, program };

struct CommandRow {
  const char* name;
  const char* sentence;   // one line of help
  const char* arguments;  // for the man page and the usage line: "[flags] -- program [arguments]"
  const char* example;    // for --help
  Takes takes;
  std::unique_ptr<Command> (*make)();
};

std::span<const CommandRow> command_table();

// "spillway help [COMMAND]" is "spillway [COMMAND] --help", and in no table.
inline constexpr const char* kHelpCommand = "help";

// One line on stderr: "spillway: " and the text, in which control characters (of a file's name) are shown as \x1b.
// Returns `code`, for `return complain(...)`.
int complain(const std::string& text, int code = kUsageMistake);

// The text on stdout. Nothing is said where the reader has gone away (a closed pipe).
void print(const std::string& text);

std::unique_ptr<Command> make_run_command();
std::unique_ptr<Command> make_check_command();
std::unique_ptr<Command> make_stats_command();
std::unique_ptr<Command> make_export_command();
std::unique_ptr<Command> make_replay_command();
std::unique_ptr<Command> make_plan_command();
std::unique_ptr<Command> make_top_command();
std::unique_ptr<Command> make_view_command();
std::unique_ptr<Command> make_probe_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_completion_command();

}  // namespace spillway::tools
