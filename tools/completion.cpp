#include "tools/completion.hpp"

#include <string_view>

#include "policy/settings.hpp"
#include "tools/command.hpp"
#include "tools/command_line.hpp"

namespace spillway::tools {
namespace {

constexpr std::string_view kFileOrMode = "FILE or mode";
constexpr const char* kHelpSentence = "Say how a command is used";

std::vector<std::string> choices_of(std::string_view type) {
  if (type == "true or false") return {"true", "false"};
  if (type.starts_with(kFileOrMode)) return choices_of(policy::find_setting("policy.mode")->type);
  if (!type.starts_with("one of: ")) return {};
  std::vector<std::string> choices;
  for (std::size_t at = 8; at < type.size();) {
    const std::size_t end = std::min(type.find(", ", at), type.size());
    choices.emplace_back(type.substr(at, end - at));
    at = end + 2;
  }
  return choices;
}

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::string flag_names(const CommandShape& command) {
  std::vector<std::string> names;
  for (const FlagShape& flag : command.flags) {
    names.push_back(flag.name);
    if (!flag.letter.empty()) names.push_back(flag.letter);
  }
  return joined(names);
}

// For a text in single quotes, in a shell and in fish.
std::string quoted_text(const std::string& text) {
  std::string out;
  for (const char letter : text) out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out;
}

// For zsh's descriptions, where brackets and colons mean something.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char letter : quoted_text(text)) {
    if (letter == '[' || letter == ']' || letter == ':') out += '\\';
    out += letter;
  }
  return out;
}

std::string roff(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\\') {
      out += "\\e";
    } else if (letter == '-') {
      out += "\\-";
    } else {
      out += letter;
    }
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string environment_list() {
  std::string out =
      ".TP\n.B " + roff(std::string(policy::kPolicyFileEnvironmentName)) + "\nThe policy file (\\-\\-policy).\n";
  for (const policy::SettingRow& row : policy::setting_table()) {
    out += ".TP\n.B " + roff(row.environment_name()) + "\n" + roff(row.flag_name()) + ", and " +
           roff(std::string(row.key)) +
           " in a policy file. Default: " + roff(row.default_text.empty() ? "none" : std::string(row.default_text)) +
           ".\n";
  }
  return out + ".TP\n.B COLUMNS, NO_COLOR\nThe width of pages and tables, and that they have no colours.\n";
}

}  // namespace

std::vector<CommandShape> command_shapes() {
  std::vector<CommandShape> shapes;
  const CommandLine line;
  for (std::size_t i = 0; i < command_table().size(); ++i) {
    const CommandRow& row = command_table()[i];
    CommandShape shape{row.name, row.sentence, row.arguments, row.example, Completes::files, {}};
    if (row.takes == Takes::program) shape.completes = Completes::programs;
    if (shape.name == "completion") shape.completes = Completes::shells;
    for (const CLI::Option* option : line.commands[i].first->get_options()) {
      const std::string value = option->get_items_expected_max() > 0 ? option->get_type_name() : "";
      for (const std::string& name : option->get_lnames()) {
        const std::string letter = option->get_snames().empty() ? "" : "-" + option->get_snames().front();
        shape.flags.push_back({"--" + name, letter, value, described(*option), choices_of(value),
                               value.starts_with(kFileOrMode), value.ends_with("...")});
      }
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

namespace {

std::string bash_choices(const FlagShape& flag) {
  return std::string("COMPREPLY=($(compgen ") + (flag.or_file ? "-f " : "") + "-W '" + joined(flag.choices) +
         "' -- \"$word\"))";
}

// Flags with several values: any word up to the next flag is one.
std::string bash_several(const CommandShape& command) {
  std::string cases;
  for (const FlagShape& flag : command.flags) {
    if (!flag.several || flag.choices.empty()) continue;
    cases += "        " + flag.name + ") [[ $word == -* ]] || { " + bash_choices(flag) + "; return; } ;;\n";
  }
  return cases.empty() ? cases : "      case $flag in\n" + cases + "      esac\n";
}

// What zsh offers for the flag's value: a function for choices beside files.
std::string zsh_action(const FlagShape& flag) {
  if (flag.choices.empty()) return "_files";
  return flag.or_file ? " _spillway_or_file " + joined(flag.choices) : "(" + joined(flag.choices) + ")";
}

// What it offers for words that are no flags. No command has more than one flag with several values.
std::string zsh_words(const CommandShape& command) {
  for (const FlagShape& flag : command.flags) {
    if (flag.several && !flag.choices.empty()) return " _spillway_words " + flag.name + " " + joined(flag.choices);
  }
  return "_files";
}

}  // namespace

std::string bash_completion(const std::vector<CommandShape>& commands) {
  std::vector<std::string> names;
  for (const CommandShape& command : commands) names.push_back(command.name);
  std::string out =
      "# Completion of spillway for bash.\n_spillway() {\n  local word=${COMP_WORDS[COMP_CWORD]} "
      "before=${COMP_WORDS[COMP_CWORD-1]}\n"
      // The flag whose value, or one of whose values, it may be.
      "  local flag=$before at=$((COMP_CWORD - 1))\n"
      "  while [ \"$at\" -gt 1 ] && [[ ${COMP_WORDS[at]} != -* ]]; do at=$((at - 1)); done\n"
      "  [[ ${COMP_WORDS[at]} == -* ]] && flag=${COMP_WORDS[at]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '" +
      joined(names) + " " + kHelpCommand +
      " --help --version' -- \"$word\"))\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n    " + kHelpCommand +
      ") COMPREPLY=($(compgen -W '" + joined(names) + "' -- \"$word\")) ;;\n";
  for (const CommandShape& command : commands) {
    out += "    " + command.name + ")\n" + bash_several(command) + "      case $before in\n";
    std::vector<std::string> free_values;  // flags
    for (const FlagShape& flag : command.flags) {
      const std::string spellings = flag.name + (flag.letter.empty() ? "" : "|" + flag.letter);
      if (flag.choices.empty()) {
        if (!flag.value.empty()) free_values.push_back(spellings);
        continue;
      }
      if (!flag.several) out += "        " + spellings + ") " + bash_choices(flag) + "; return ;;\n";
    }
    if (!free_values.empty())
      out += "        " + joined(free_values, "|") + ") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n";
    out += "      esac\n      case $word in\n        -*) COMPREPLY=($(compgen -W '" + flag_names(command) +
           "' -- \"$word\")) ;;\n        *) COMPREPLY=(";
    switch (command.completes) {
      case Completes::files:
        out += "$(compgen -f -- \"$word\")";
        break;
      case Completes::programs:
        out += "$(compgen -c -f -- \"$word\")";
        break;
      case Completes::shells:
        out += "$(compgen -W 'bash zsh fish man' -- \"$word\")";
        break;
    }
    out += ") ;;\n      esac ;;\n";
  }
  return out + "  esac\n}\ncomplete -o filenames -F _spillway spillway\n";
}

std::string zsh_completion(const std::vector<CommandShape>& commands) {
  std::string out =
      "#compdef spillway\n# Completion of spillway for zsh.\n"
      "_spillway_or_file() {\n  _alternative \"values:value:($*)\" 'files:file:_files'\n}\n"
      // Files; or, where the last flag is the one named first, its values as well.
      "_spillway_words() {\n  local at=$(( CURRENT - 1 ))\n"
      "  while (( at > 1 )) && [[ $words[at] != -* ]]; do (( at-- )); done\n"
      "  if [[ $words[at] == $1 ]]; then shift; _spillway_or_file \"$@\"; else _files; fi\n}\n"
      "_spillway() {\n  local -a commands=(\n";
  for (const CommandShape& command : commands) out += "    '" + command.name + ":" + zsh_text(command.sentence) + "'\n";
  out += std::string("    '") + kHelpCommand + ":" + kHelpSentence + "'\n";
  out +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n    " +
      std::string(kHelpCommand) + ")\n      _describe command commands ;;\n";
  for (const CommandShape& command : commands) {
    out += "    " + command.name + ")\n      _arguments -s";
    for (const FlagShape& flag : command.flags) {
      const std::string names =
          flag.letter.empty() ? flag.name
                              : "(" + flag.letter + " " + flag.name + ")'{" + flag.letter + "," + flag.name + "}'";
      out += " \\\n        '" + names + "[" + zsh_text(flag.sentence) + "]";
      if (!flag.value.empty()) {
        const bool named = flag.choices.empty() || flag.or_file;
        out += ":" + zsh_text(named ? flag.value : "value") + ":" + zsh_action(flag);
      }
      out += "'";
    }
    switch (command.completes) {
      case Completes::files:
        out += " \\\n        '*:file:" + zsh_words(command) + "' ;;\n";
        break;
      case Completes::programs:
        out += " \\\n        '*::program:_normal' ;;\n";
        break;
      case Completes::shells:
        out += " \\\n        ':shell:(bash zsh fish man)' ;;\n";
        break;
    }
  }
  return out + "  esac\n}\n_spillway \"$@\"\n";
}

std::string fish_completion(const std::vector<CommandShape>& commands) {
  std::string out =
      "# Completion of spillway for fish.\n"
      // Whether the word may be one of the values of the flag: that is the last flag before it.
      "function __spillway_values_of\n  for word in (commandline -opc)[-1..1]\n"
      "    if string match -q -- '-*' $word\n      test $word = $argv[1]\n      return\n    end\n  end\n"
      "  return 1\nend\n";
  for (const CommandShape& command : commands) {
    out += "complete -c spillway -n __fish_use_subcommand -f -a " + command.name + " -d '" +
           quoted_text(command.sentence) + "'\n";
  }
  std::vector<std::string> names;
  for (const CommandShape& command : commands) names.push_back(command.name);
  out += std::string("complete -c spillway -n __fish_use_subcommand -f -a ") + kHelpCommand + " -d '" + kHelpSentence +
         "'\ncomplete -c spillway -n '__fish_seen_subcommand_from " + kHelpCommand + "' -f -a '" + joined(names) +
         "'\n";
  for (const CommandShape& command : commands) {
    const std::string start = "complete -c spillway -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const FlagShape& flag : command.flags) {
      out += start + (flag.letter.empty() ? "" : " -s " + flag.letter.substr(1)) + " -l " + flag.name.substr(2) +
             " -d '" + quoted_text(flag.sentence) + "'";
      if (!flag.value.empty()) out += flag.choices.empty() || flag.or_file ? " -r" : " -x";
      if (!flag.choices.empty()) out += " -a '" + joined(flag.choices) + "'";
      out += "\n";
      if (flag.several && !flag.choices.empty()) {
        out += "complete -c spillway -n '__fish_seen_subcommand_from " + command.name + "; and __spillway_values_of " +
               flag.name + "' -a '" + joined(flag.choices) + "'\n";
      }
    }
    if (command.completes == Completes::shells) out += start + " -f -a 'bash zsh fish man'\n";
    if (command.completes == Completes::programs) out += start + " -a '(__fish_complete_subcommand)'\n";
  }
  return out;
}

std::string man_page(const std::vector<CommandShape>& commands) {
  std::string out = ".TH SPILLWAY 1 \"\" \"spillway " SPILLWAY_VERSION
                    "\"\n.SH NAME\nspillway \\- run CUDA programs beyond their GPU's memory\n"
                    ".SH SYNOPSIS\n";
  for (const CommandShape& command : commands) {
    out += ".B spillway " + command.name + "\n" + roff(command.arguments) + "\n.br\n";
  }
  out +=
      ".SH DESCRIPTION\nSpillway lets an unmodified CUDA program use more memory than its GPU has: what does not fit a "
      "budget\n"
      "spills to host memory, and a policy decides what lives in device memory, what is read over the link in place,\n"
      "and what is moved when.\n.SH COMMANDS\n";
  out += std::string(".SS spillway ") + kHelpCommand + " [COMMAND]\n" + kHelpSentence + ", as \\-\\-help does.\n";
  for (const CommandShape& command : commands) {
    out += ".SS spillway " + command.name + " " + roff(command.arguments) + "\n" + roff(command.sentence) + ".\n";
    for (const FlagShape& flag : command.flags) {
      out += ".TP\n.B " + (flag.letter.empty() ? "" : roff(flag.letter) + ", ") + roff(flag.name) +
             (flag.value.empty() ? "" : " \\fI" + roff(flag.value) + "\\fR") + "\n" + roff(flag.sentence) + "\n";
    }
    out += ".PP\nExample:\n.PP\n.EX\n  " + roff(command.example) + "\n.EE\n";
  }
  return out +
         ".SH EXIT STATUS\n0 for success; 1 where the answer is no (a trace that cannot be read, a machine that cannot "
         "be served); 2 for a\n"
         "mistake in flags, settings or a policy file, or a program that cannot be run or intercepted.\n"
         ".B spillway run\notherwise becomes the program, whose exit status and signals are its own.\n"
         ".SH ENVIRONMENT\nA flag of\n.B spillway run\nwins over the variable, the variable over the policy file.\n" +
         environment_list();
}

}  // namespace spillway::tools
