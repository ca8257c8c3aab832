#include "tools/command_line.hpp"

#include <algorithm>

namespace spillway::tools {
namespace {

bool takes_value(const CLI::App& command, const std::string& word) {
  const CLI::Option* flag = word.starts_with("-") ? command.get_option_no_throw(word) : nullptr;
  return flag != nullptr && flag->get_items_expected_max() > 0;
}

// Whether the word is a flag of the command, with or without "=" and a value.
bool is_flag(const CLI::App& command, const std::string& word) {
  return word.starts_with("-") && command.get_option_no_throw(word.substr(0, word.find('='))) != nullptr;
}

// Where the program begins: after "--", or at the first word that is neither a flag of ours nor the value of one. "--"
// is no value: before it stands a flag that lacks its own.
std::size_t program_start(const CLI::App& command, const std::vector<std::string>& arguments) {
  std::size_t at = 1;
  for (; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    if (word == "--" || word.empty() || word.front() != '-') break;
    if (takes_value(command, word) && at + 1 < arguments.size() && arguments[at + 1] != "--") ++at;
  }
  return std::min(at, arguments.size());
}

// "-o=FILE" is "--output=FILE": CLI11 would take "=FILE" for the value.
void spell_out(const CLI::App& command, std::string& word) {
  if (word.size() < 3 || word[1] == '-' || word[2] != '=' || !takes_value(command, word.substr(0, 2))) return;
  const auto& names = command.get_option_no_throw(word.substr(0, 2))->get_lnames();
  if (!names.empty()) word = "--" + names.front() + word.substr(2);
}

// What stands behind "--" is no flag. CLI11 hands it to no command that has all it needs: without the mark it does.
void take_mark_away(std::vector<std::string>& arguments) {
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  if (mark == arguments.end()) return;
  std::for_each(mark + 1, arguments.end(), [](std::string& word) {
    if (word.starts_with('-')) word = "./" + word;  // a file
  });
  arguments.erase(mark);
}

// What CLI11 would take for a value that is none: of "--flag=", whose value is empty, the next word; and of a flag
// without its value "--" or another flag, so that the words end there.
void mark_values(const CLI::App& command, std::vector<std::string>& arguments) {
  for (std::size_t at = 1; at < arguments.size() && arguments[at] != "--"; ++at) {
    std::string& word = arguments[at];
    spell_out(command, word);
    if (word.ends_with('=') && takes_value(command, word.substr(0, word.size() - 1))) {
      word.pop_back();
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(++at), std::string());
    } else if (takes_value(command, word) && at + 1 < arguments.size()) {
      const std::string& next = arguments[at + 1];
      if (next == "--" || is_flag(command, next)) arguments.resize(at + 1);
      ++at;
    }
  }
}

// "Usage: spillway run [flags] [--] program [arguments]", from the table.
class UsageFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    for (const CommandRow& row : command_table()) {
      if (app->get_name() == row.name) return std::string("Usage: spillway ") + row.name + " " + row.arguments + "\n";
    }
    return CLI::Formatter::make_usage(app, std::move(name));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return {};
    return " " + option->get_type_name() + (option->get_required() ? " (required)" : "");
  }
  std::string make_option_desc(const CLI::Option* option) const override { return described(*option); }
};

}  // namespace

std::string described(const CLI::Option& option) {
  const std::string standard = option.get_default_str();
  return option.get_description() + (standard.empty() ? "" : " (default: " + standard + ")");
}

CommandLine::CommandLine() : app("Run CUDA programs beyond their GPU's memory, and see what moved.", "spillway") {
  app.formatter(std::make_shared<UsageFormatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("spillway ") + SPILLWAY_VERSION, "Print the version");
  app.footer("Each command has --help with an example.");
  for (const CommandRow& row : command_table()) {
    CLI::App* const sub = app.add_subcommand(row.name, row.sentence);
    sub->footer(std::string("Example:\n  ") + row.example);
    commands.emplace_back(sub, row.make());
    commands.back().second->add_options(*sub);
  }
}

void CommandLine::parse(std::vector<std::string> arguments) {
  const auto table = command_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (arguments.empty() || arguments.front() != table[i].name) continue;
    if (table[i].takes == Takes::program) {
      const std::size_t end = program_start(*commands[i].first, arguments);
      const std::size_t start = end < arguments.size() && arguments[end] == "--" ? end + 1 : end;
      commands[i].second->set_program({arguments.begin() + static_cast<std::ptrdiff_t>(start), arguments.end()});
      arguments.resize(end);
    }
    mark_values(*commands[i].first, arguments);
    take_mark_away(arguments);
  }
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  app.parse(std::move(arguments));
}

Command* CommandLine::chosen() const {
  for (const auto& [sub, command] : commands) {
    if (sub->parsed()) return command.get();
  }
  return nullptr;
}

}  // namespace spillway::tools
