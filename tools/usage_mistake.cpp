#include "tools/usage_mistake.hpp"

#include <optional>
#include <string_view>

#include "policy/settings.hpp"
#include "tools/command.hpp"

namespace spillway::tools {
namespace {

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

// The flag of which CLI11's sentence is: it begins with its name.
const CLI::Option* flag_of(const CLI::App& command, const std::string& sentence) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional() && sentence.starts_with(option->get_name() + ":")) return option;
  }
  return nullptr;
}

std::string wrong_count(const CLI::Option& flag) {
  if (flag.count() > 1) {
    std::string text = flag.get_name() + ": is given " + std::to_string(flag.count()) + " times (";
    for (const std::string& value : flag.results()) text += (text.back() == '(' ? "" : ", ") + policy::quoted(value);
    return text + "); keep one of them";
  }
  return flag.get_name() + " needs a value (" + flag.get_type_name() + "); write it behind the flag";
}

std::optional<std::string> near_flag(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const auto near = policy::nearest(word, std::vector<std::string_view>(names.begin(), names.end()));
  return near ? std::optional<std::string>(*near) : std::nullopt;
}

std::string unknown_word(const CLI::App& command, const std::string& word) {
  std::string text = "unknown " + std::string(word.starts_with("-") ? "flag " : "argument ") + policy::quoted(word);
  if (const auto near = near_flag(command, word)) text += "; did you mean " + *near + "?";
  return text;
}

// A flag where the command should be.
std::string flag_before_command(const CLI::App& app, const std::vector<std::string>& words) {
  if (near_flag(app, words.front())) return unknown_word(app, words.front());
  std::string text = policy::quoted(words.front()) + " stands where the command should be";
  for (const std::string& word : words) {
    for (const CommandRow& row : command_table()) {
      if (word == row.name) return text + "; write it behind: spillway " + word + " " + words.front() + " ...";
    }
  }
  return text + "; write the command first: spillway COMMAND [flags]";
}

std::string of_command(const CLI::App& command, const CLI::ParseError& error) {
  std::string text = one_line(error.what());
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return "missing:" + missing_of(command) + "; usage: spillway " + command.get_name() + " " +
           arguments_of(command.get_name());
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !command.remaining().empty())
    return unknown_word(command, command.remaining().front());
  const CLI::Option* const flag = flag_of(command, text);
  if (flag != nullptr && dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return wrong_count(*flag);
  return text;
}

}  // namespace

int unknown_command(const std::string& word) {
  std::vector<std::string_view> known{kHelpCommand};
  for (const CommandRow& row : command_table()) known.emplace_back(row.name);
  std::string text = "unknown command " + policy::quoted(word);
  if (const auto near = policy::nearest(word, known)) text += "; did you mean " + std::string(*near) + "?";
  return complain(text + "; see `spillway --help`");
}

int usage_mistake(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App* command = app.get_subcommands().empty() ? nullptr : app.get_subcommands().front();
  if (words.empty()) return complain("no command given; see `spillway --help`");
  if (words.front().starts_with("-")) return complain(flag_before_command(app, words) + "; see `spillway --help`");
  if (command == nullptr) return unknown_command(words.front());
  return complain(of_command(*command, error) + "; see `spillway " + command->get_name() + " --help`");
}

}  // namespace spillway::tools
