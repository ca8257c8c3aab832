// What all commands share: help with an example, versions, completions, the man page; and doctor on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "policy/settings.hpp"
#include "tests/support/process.hpp"
#include "tools/command.hpp"
#include "tools/completion.hpp"
#include "tools/machine.hpp"
#include "tools/preload.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;
using tests::run_process;
namespace fs = std::filesystem;

TEST(Command, EachHasHelpWithItsExample) {
  for (const CommandRow& row : command_table()) {
    const auto result = run_process({SPILLWAY_COMMAND, row.name, "--help"});
    EXPECT_EQ(result.exit_code, 0) << row.name;
    EXPECT_THAT(result.out, HasSubstr(row.sentence));
    EXPECT_THAT(result.out, HasSubstr(std::string("Example:\n  ") + row.example));
    EXPECT_EQ(result.err, "");
  }
}

// `spillway run --help | head -1`: a reader that goes away is no problem to speak of.
TEST(Command, EachIsQuietOnAClosedPipe) {
  tests::ProcessOptions options;
  options.close_stdout_reader = true;
  for (const CommandRow& row : command_table()) {
    const auto result = run_process({SPILLWAY_COMMAND, row.name, "--help"}, options);
    EXPECT_EQ(result.err, "") << row.name;
    EXPECT_EQ(result.exit_code, 0) << row.name;
  }
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--help"},
           {"--version"},
           {"doctor"},
           {"doctor", "--json"},
           {"completion", "man"},
           {"check", "--reference"},
           {"stats", std::string(GOLDEN_TRACES) + "/train_adam.swt", "--by", "kernel,iteration"},
           {"stats", std::string(GOLDEN_TRACES) + "/train_adam.swt", "--json"},
           {"replay", std::string(GOLDEN_TRACES) + "/train_adam.swt"}}) {
    std::vector<std::string> command = words;
    command.insert(command.begin(), SPILLWAY_COMMAND);
    const auto result = run_process(command, options);
    EXPECT_EQ(result.err, "") << words.front();
    EXPECT_EQ(result.signal, 0) << words.front();
  }
}

TEST(Command, UsageMistakesExitWithTwoAndOneLine) {
  const std::vector<std::vector<std::string>> mistakes = {{},
                                                          {"rnu"},
                                                          {"--frob"},
                                                          {"doctor", "extra"},
                                                          {"completion", "tcsh"},
                                                          {"table", "--help"},
                                                          {"--version", "extra"},
                                                          {"extra", "--version"},
                                                          {"doctor", "--simulated"},
                                                          {"probe", "--device", "x"},
                                                          {"probe", "--device", "-1"},
                                                          {"probe", "--device", "9999999999"},
                                                          {"check", "/no/such.toml"}};
  for (std::vector<std::string> arguments : mistakes) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    const auto result = run_process(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments.back();
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  const auto says = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    return run_process(arguments).err;
  };
  EXPECT_THAT(says({"stast"}), HasSubstr("did you mean stats?"));
  EXPECT_THAT(says({"table", "--help"}), HasSubstr("unknown command \"table\""));
  EXPECT_THAT(says({"--version", "extra"}), HasSubstr("unknown argument \"extra\""));
  EXPECT_THAT(says({"doctor", "--simulated"}), HasSubstr("give a program"));
  EXPECT_THAT(says({"probe", "--device", "x"}), HasSubstr("write a device number"));
  EXPECT_THAT(says({"check", "/no/such.toml"}), HasSubstr("; give the path of a policy file"));
  // All that is missing, by the names of the usage line.
  EXPECT_EQ(says({"top"}),
            "spillway: missing: PID|TRACE; usage: spillway top PID|TRACE [flags]; see `spillway top --help`\n");
  EXPECT_THAT(says({"stats"}), HasSubstr("missing: TRACE; usage"));
  EXPECT_THAT(says({"export"}),
              HasSubstr("missing: TRACE, --format, --output; usage: spillway export TRACE --format FORMAT"));
  EXPECT_THAT(says({"export", "run.swt", "-o", "x"}), HasSubstr("missing: --format; usage"));
}

// A flag before "--" must not take it for its value: the program would be started with a trace called "--".
TEST(Command, AFlagWithoutItsValueIsNamed) {
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    return run_process(arguments);
  };
  for (const std::string flag : {"--trace", "--policy", "--device-budget", "--mode"}) {
    const auto result = run({"run", flag, "--", "true"});
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_THAT(result.err, HasSubstr("spillway: " + flag + " needs a value ("));
  }
  EXPECT_FALSE(fs::exists("--"));
  EXPECT_THAT(run({"run", "--trace"}).err, HasSubstr("--trace needs a value (text); write it behind the flag; see"));
  EXPECT_THAT(run({"doctor", "--time-limit", "--", "true"}).err, HasSubstr("--time-limit needs a value (seconds)"));
  EXPECT_THAT(run({"plan", "x.swt", "--device-budget", "--"}).err, HasSubstr("--device-budget needs a value (size"));
  // What takes no value, has its own, or is no flag: the words behind "--" count.
  EXPECT_THAT(run({"plan", "--device-budget", "1GiB", "--", "none.swt"}).err, HasSubstr("none.swt: cannot be opened"));
  EXPECT_THAT(run({"plan", "--device-budget", "1GiB", "--json", "--", "none.swt"}).err,
              HasSubstr("none.swt: cannot be opened"));
  EXPECT_THAT(run({"plan", "--device-budget", "1GiB", "trace", "--", "more"}).err, HasSubstr("more"));
}

// Nor must it take the flag behind it: `run --trace --summary` would write a trace called "--summary".
TEST(Command, AFlagDoesNotTakeTheNextOneForItsValue) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    const auto result = run_process(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(said({"run", "--trace", "--summary", "--", "true"}), HasSubstr("spillway: --trace needs a value (text)"));
  EXPECT_THAT(said({"run", "--mode", "--trace=x.swt", "true"}), HasSubstr("spillway: --mode needs a value ("));
  EXPECT_THAT(said({"doctor", "--time-limit", "--simulated", "--", "true"}), HasSubstr("--time-limit needs a value"));
  EXPECT_THAT(
      said({"plan", "x.swt", "--device-budget", "48MiB", "-o", "--json"}),
      HasSubstr("spillway: --output needs a value (FILE); write it behind the flag; see `spillway plan --help`"));
  EXPECT_THAT(said({"export", "x.swt", "--format", "csv", "-o", "--from", "1s"}), HasSubstr("--output needs a value"));
  EXPECT_THAT(said({"replay", "x.swt", "--compare", "--json"}), HasSubstr("--compare needs a value ("));
}

// "--flag=" is a value as well, the empty one: what follows is not taken for it.
TEST(Command, NothingBehindTheEqualsSignIsTheEmptyValue) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    return run_process(arguments).err;
  };
  EXPECT_THAT(said({"stats", "--top=", "5", "x.swt"}), HasSubstr("--top: \"\" is no whole number"));
  EXPECT_THAT(said({"doctor", "--time-limit=", "--simulated", "--", "true"}),
              HasSubstr("--time-limit: \"\" is no whole"));
  EXPECT_THAT(said({"plan", "x.swt", "--device-budget=", "--json"}),
              HasSubstr("--device-budget: the value is empty; write"));
  EXPECT_THAT(said({"stats", "x.swt", "--by="}), HasSubstr("--by: \"\" is not one of"));
  EXPECT_THAT(said({"stats", "x.swt", "--", "--by="}), HasSubstr("--by="));
  EXPECT_THAT(said({"replay", "x.swt", "--device-budget="}), HasSubstr("--device-budget: the value is empty; write"));
  EXPECT_THAT(said({"replay", "x.swt", "--policy="}), HasSubstr("--policy: \"\" names no file; write a name behind"));
}

// Of a short flag as well; "=" is no part of the value.
TEST(Command, AShortFlagTakesItsValueBehindAnEqualsSign) {
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    return run_process(arguments);
  };
  const std::vector<std::vector<std::string>> commands = {{"plan", "x.swt", "--device-budget", "48MiB"},
                                                          {"view", "x.swt", "--open", "no"},
                                                          {"export", "x.swt", "--format", "csv"}};
  for (std::vector<std::string> words : commands) {
    for (const std::vector<std::string>& empty : {std::vector<std::string>{"-o="}, {"--output="}, {"-o", ""}}) {
      std::vector<std::string> all = words;
      all.insert(all.end(), empty.begin(), empty.end());
      const auto result = run(all);
      EXPECT_EQ(result.exit_code, 2) << words.front() << " " << empty.front();
      EXPECT_EQ(result.out, "");
      EXPECT_EQ(result.err, "spillway: --output: \"\" names no file; write a name behind the flag; see `spillway " +
                                words.front() + " --help`\n");
    }
  }
  // Were it "=.", it would be a file.
  const std::vector<std::string> folder = {"export", GOLDEN_TRACES "/cupy_blocks.swt", "--format", "csv", "-o=."};
  EXPECT_THAT(run(folder).err, HasSubstr("spillway: .: is a folder; name a file to write"));
}

// In our words, whatever stands behind "--"; and a file whose name begins as a flag does is one.
TEST(Command, WordsTooManyBehindTheMarkAreNamed) {
  const auto says = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    const auto result = run_process(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(says({"plan", "x.swt", "--device-budget", "48MiB", "--", "extra"}),
            "spillway: unknown argument \"extra\"; see `spillway plan --help`\n");
  EXPECT_EQ(says({"plan", "x.swt", "--device-budget", "48MiB", "extra"}),
            "spillway: unknown argument \"extra\"; see `spillway plan --help`\n");
  EXPECT_EQ(says({"view", "--", "x.swt", "extra", "-o"}),
            "spillway: unknown argument \"extra\"; see `spillway view --help`\n");
  EXPECT_EQ(says({"completion", "bash", "--", "zsh"}),
            "spillway: unknown argument \"zsh\"; see `spillway completion --help`\n");
  EXPECT_EQ(says({"check", "rules.toml", "--", "more.toml", "most.toml"}),
            "spillway: unknown argument \"more.toml\"; see `spillway check --help`\n");
  EXPECT_EQ(run_process({SPILLWAY_COMMAND, "stats", "none.swt", "--", "--by"}).err,
            "spillway: none.swt: cannot be opened: No such file or directory; check the path of the trace\n"
            "spillway: ./--by: cannot be opened: No such file or directory; check the path of the trace\n");
}

TEST(Command, HelpIsACommandAsWell) {
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    return run_process(arguments);
  };
  EXPECT_EQ(run({"help"}).exit_code, 0);
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "stats"}).exit_code, 0);
  EXPECT_EQ(run({"help", "stats"}).out, run({"stats", "--help"}).out);
  EXPECT_EQ(run({"help", "run"}).out, run({"run", "--help"}).out);
  const auto unknown = run({"help", "stast"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err, "spillway: unknown command \"stast\"; did you mean stats?; see `spillway --help`\n");
  EXPECT_THAT(run({"--verison"}).err, HasSubstr("spillway: unknown flag \"--verison\"; did you mean --version?; see"));
  EXPECT_THAT(run({"--hlep", "run"}).err, HasSubstr("unknown flag \"--hlep\"; did you mean --help?; see"));
}

TEST(Command, FlagsHaveTheirMistakesNamedWithARemedy) {
  const auto says = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
    const auto result = run_process(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_EQ(says({"run", "--trace", "a", "--trace", "b", "--", "true"}),
            "spillway: --trace: is given 2 times (\"a\", \"b\"); keep one of them; see `spillway run --help`\n");
  EXPECT_EQ(says({"--simulated", "run", "--", "true"}),
            "spillway: \"--simulated\" stands where the command should be; write it behind: spillway run --simulated "
            "...; see `spillway --help`\n");
  EXPECT_THAT(says({"--frob"}), HasSubstr("\"--frob\" stands where the command should be; write the command first"));
  EXPECT_EQ(says({"stats", "x", "--by", "kernl"}),
            "spillway: --by: \"kernl\" is not one of: class, rule, kernel, iteration, allocation; did you mean "
            "kernel?; see `spillway stats --help`\n");
  EXPECT_THAT(says({"export", "x", "-o", "y", "--format", "foo"}),
              HasSubstr("--format: \"foo\" is not one of: perfetto, sqlite, csv; write one of them; see"));
  EXPECT_THAT(says({"stats", "x", "--top", "-1"}),
              HasSubstr("--top: \"-1\" is too small; write a whole number from 0 to 1000000; see"));
  EXPECT_THAT(says({"view", "x", "--serve", "--port", "80x"}),
              HasSubstr("--port: \"80x\" is no whole number; write a whole number from 0 to 65535; see"));
  EXPECT_THAT(says({"view", "x", "--serve", "--port", "80000"}), HasSubstr("--port: \"80000\" is too large; write"));
  EXPECT_THAT(says({"top", "x", "--interval", "0"}),
              HasSubstr("--interval: \"0\" is too small; write a number from 0.05 to 3600; see"));
  EXPECT_THAT(says({"top", "x", "--interval", "nan"}),
              HasSubstr("--interval: \"nan\" is no number; write a number from 0.05 to 3600; see"));
  EXPECT_THAT(says({"stats", "x", "--top", ""}), HasSubstr("--top: \"\" is no whole number; write"));
  EXPECT_THAT(says({"stats", "x", "--top", "99999999999999999999"}), HasSubstr("9999\" is too large; write"));
  EXPECT_THAT(says({"stats", "x", "--top", "-99999999999999999999"}), HasSubstr("9999\" is too small; write"));
  EXPECT_THAT(says({"top", "x", "--interval", "1e-400"}), HasSubstr("\"1e-400\" is too small; write"));
  EXPECT_THAT(says({"top", "x", "--interval", "1e400"}), HasSubstr("\"1e400\" is too large; write"));
  for (const std::string good : {"0", "1000000"})
    EXPECT_THAT(run_process({SPILLWAY_COMMAND, "stats", "none.swt", "--top", good}).err,
                HasSubstr("none.swt: cannot be opened"))
        << good;
  EXPECT_THAT(says({"top", "x", "--top", "1001"}), HasSubstr("--top: \"1001\" is too large; write"));
  EXPECT_THAT(says({"view", "x", "--open", "maybe"}), HasSubstr("--open: \"maybe\" is not one of: yes, no; write"));
  EXPECT_THAT(says({"doctor", "--time-limit", "0", "--", "true"}),
              HasSubstr("--time-limit: \"0\" is too small; write"));
  EXPECT_THAT(says({"completion", "tcsh"}), HasSubstr("\"tcsh\" is not one of: bash, zsh, fish, man"));
  EXPECT_EQ(says({"stats", "x", "--tpo", "3"}),
            "spillway: unknown flag \"--tpo\"; did you mean --top?; see `spillway stats --help`\n");
}

TEST(Command, VersionIsPrinted) {
  EXPECT_EQ(run_process({SPILLWAY_COMMAND, "--version"}).out, "spillway " SPILLWAY_VERSION "\n");
}

TEST(Completion, BashCompletesCommandsFlagsAndChoices) {
  const std::string script = bash_completion(command_shapes());
  const auto complete = [&script](const std::string& words, const std::string& cword) {
    return run_process(
               {"bash", "-c",
                script + "\nCOMP_WORDS=(" + words + "); COMP_CWORD=" + cword + "; _spillway; echo ${COMPREPLY[*]}"})
        .out;
  };
  EXPECT_EQ(complete("spillway do", "1"), "doctor\n");
  EXPECT_EQ(complete("spillway run --dev", "2"), "--device-budget\n");
  EXPECT_EQ(complete("spillway run --mode a", "3"), "alloc_prefetch arrival adaptive\n");
  EXPECT_EQ(complete("spillway completion z", "2"), "zsh\n");
  EXPECT_EQ(complete("spillway completion m", "2"), "man\n");
  EXPECT_EQ(complete("spillway export --format s", "3"), "sqlite\n");
  EXPECT_EQ(complete("spillway stats --by k", "3"), "kernel\n");
  EXPECT_EQ(complete("spillway hel", "1"), "help\n");
  EXPECT_EQ(complete("spillway help st", "2"), "stats\n");
  // Modes and files, for each of several values.
  EXPECT_EQ(complete("spillway replay --policy dem", "3"), "demand\n");
  EXPECT_EQ(complete("spillway replay x.swt --compare dem", "4"), "demand\n");
  EXPECT_EQ(complete("spillway replay x.swt --compare demand alloc_", "5"), "alloc_prefetch\n");
  EXPECT_EQ(complete("spillway replay --compare demand /dev/nul", "4"), "/dev/null\n");
  EXPECT_EQ(complete("spillway replay --compare demand --js", "4"), "--json\n");
  EXPECT_EQ(complete("spillway replay --compare demand --json dem", "5"), "\n") << "a trace";
  // Files, and no programs, which stand behind the flags.
  for (const char* flag : {"--policy", "--trace", "--device-budget"}) {
    EXPECT_EQ(complete(std::string("spillway run ") + flag + " /dev/nul", "3"), "/dev/null\n") << flag;
    EXPECT_EQ(complete(std::string("spillway run ") + flag + " bas", "3"), "\n") << flag;
  }
  EXPECT_THAT(complete("spillway run bas", "2"), HasSubstr("bash"));
}

// By the shells themselves. For zsh its helpers are replaced by what they were given: no terminal is needed.
TEST(Completion, ZshAndFishReadTheirs) {
  std::string pattern = (fs::temp_directory_path() / "completion-test-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  std::ofstream(folder / "s.zsh") << zsh_completion(command_shapes());
  std::ofstream(folder / "s.fish") << fish_completion(command_shapes());
  const auto zsh = [&folder](const std::string& words, int current) {
    const auto result =
        run_process({"zsh", "-fc",
                     "_arguments() { print -rl -- \"$@\" }; _describe() { print -rl -- $commands }; words=(" + words +
                         "); CURRENT=" + std::to_string(current) + "; source " + (folder / "s.zsh").string()});
    EXPECT_EQ(result.exit_code, 0) << "needs zsh: " << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  };
  EXPECT_THAT(zsh("spillway ''", 2), HasSubstr("\nview:Show a trace as a page"));
  const std::string of_export = zsh("spillway export ''", 3);
  EXPECT_THAT(of_export, HasSubstr("\n--format[What to write]:value:(perfetto sqlite csv)\n"));
  EXPECT_THAT(of_export, HasSubstr("\n(-o --output)-o[File to write"));
  EXPECT_THAT(of_export, HasSubstr("\n(-o --output)--output[File to write"));
  const std::string of_replay = zsh("spillway replay ''", 3);
  const std::string modes = " _spillway_or_file off demand alloc_prefetch arrival adaptive\n";
  EXPECT_THAT(of_replay, ::testing::ContainsRegex("\n--policy\\[[^\n]*\\]:FILE or mode:" + modes));
  EXPECT_THAT(of_replay, ::testing::ContainsRegex("\n--compare\\[[^\n]*\\]:FILE or mode \\.\\.\\.:" + modes));
  EXPECT_THAT(of_replay, HasSubstr("\n*:file: _spillway_words --compare off demand alloc_prefetch arrival adaptive\n"));
  const auto offered = [&folder](const std::string& words, int current) {
    return run_process(
               {"zsh", "-fc",
                "_alternative() { print -rl -- \"$@\" }; _files() { print files }; _arguments() { }; words=(x '' "
                "''); CURRENT=3; source " +
                    (folder / "s.zsh").string() + "; words=(" + words + "); CURRENT=" + std::to_string(current) +
                    "; _spillway_words --compare off demand"})
        .out;
  };
  const std::string both = "values:value:(off demand)\nfiles:file:_files\n";
  EXPECT_EQ(offered("replay x.swt --compare demand ''", 5), both);
  EXPECT_EQ(offered("replay x.swt --compare demand --json ''", 6), "files\n");
  EXPECT_EQ(offered("replay ''", 2), "files\n");
  const auto fish = [&folder](const std::string& line) {
    const auto result = run_process(
        {"fish", "--no-config", "-c", "source " + (folder / "s.fish").string() + "; complete -C '" + line + "'"});
    EXPECT_EQ(result.exit_code, 0) << "needs fish: " << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  };
  EXPECT_THAT(fish("spillway vi"), HasSubstr("view\tShow a trace as a page"));
  EXPECT_THAT(fish("spillway export --format "), HasSubstr("sqlite"));
  EXPECT_THAT(fish("spillway run --mode ad"), HasSubstr("adaptive"));
  EXPECT_THAT(fish("spillway export -"), HasSubstr("-o\tFile to write"));
  EXPECT_THAT(fish("spillway replay x.swt --policy deman"), ::testing::StartsWith("demand\t"));
  EXPECT_THAT(fish("spillway replay x.swt --compare deman"), ::testing::StartsWith("demand\t"));
  EXPECT_EQ(fish("spillway replay x.swt --compare arrival deman"), "demand\n");
  EXPECT_EQ(fish("spillway replay x.swt --compare arrival /dev/nul"), "/dev/null\n");
  EXPECT_EQ(fish("spillway replay --compare arrival --json deman"), "") << "a trace";
  fs::remove_all(folder);
}

TEST(Completion, EveryShellAndTheManPageNameEveryCommandAndFlag) {
  const auto commands = command_shapes();
  for (const CommandShape& command : commands) {
    for (const std::string& text :
         {bash_completion(commands), zsh_completion(commands), fish_completion(commands), man_page(commands)}) {
      EXPECT_THAT(text, HasSubstr(command.name));
    }
    for (const FlagShape& flag : command.flags) {
      EXPECT_THAT(zsh_completion(commands), HasSubstr(flag.letter.empty() ? "'" + flag.name + "[" : flag.name + "}'["));
      EXPECT_THAT(fish_completion(commands), HasSubstr("-l " + flag.name.substr(2)));
    }
  }
}

// The same of every flag and its default in --help, man page and table; every setting with its variable.
TEST(Completion, HelpManPageAndSettingsTableAgree) {
  const auto plain = [](std::string text) {  // roff's escapes taken back
    for (std::size_t at = 0; (at = text.find("\\-", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  };
  const std::string page = plain(man_page(command_shapes()));
  std::size_t defaults = 0;
  for (const CommandShape& command : command_shapes()) {
    const std::string help = run_process({SPILLWAY_COMMAND, command.name, "--help"}).out;
    const std::size_t begin = page.find("\n.SS spillway " + command.name + " ");
    ASSERT_NE(begin, std::string::npos) << command.name;
    const std::string section = page.substr(begin, page.find("\nExample:", begin) - begin);
    for (const FlagShape& flag : command.flags) {
      const std::string name = (flag.letter.empty() ? "" : flag.letter + ", ") + flag.name;
      EXPECT_THAT(section, HasSubstr("\n.B " + name + (flag.value.empty() ? "" : " \\fI" + flag.value + "\\fR") + "\n" +
                                     flag.sentence + "\n"));
      EXPECT_THAT(help, HasSubstr(flag.sentence)) << command.name << " " << flag.name;
      EXPECT_THAT(help, HasSubstr(flag.name + (flag.value.empty() ? "" : " " + flag.value)));
      EXPECT_THAT(flag.value, ::testing::Not(::testing::ContainsRegex("[A-Z]:|[{]"))) << "CLI11's own words";
      defaults += flag.sentence.find("default: ") != std::string::npos ? 1U : 0U;
    }
  }
  EXPECT_GE(defaults, policy::setting_table().size() + 10);
  const std::string help = run_process({SPILLWAY_COMMAND, "run", "--help"}).out;
  const std::string variables = page.substr(page.find("\n.SH ENVIRONMENT\n"));
  for (const policy::SettingRow& row : policy::setting_table()) {
    const std::string standard = row.default_text.empty() ? "none" : std::string(row.default_text);
    EXPECT_EQ(row.default_text, row.get(policy::Settings())) << row.key;
    EXPECT_THAT(help, HasSubstr(row.flag_name() + " " + std::string(row.type)));
    EXPECT_THAT(help, HasSubstr(row.help()));
    EXPECT_THAT(row.help(), ::testing::EndsWith(row.environment_name() + "; default: " + standard + ")"));
    EXPECT_THAT(variables, HasSubstr("\n.B " + row.environment_name() + "\n" + row.flag_name() + ", and " +
                                     std::string(row.key) + " in a policy file. Default: " + standard + ".\n"));
  }
}

TEST(Probe, WithoutADriverSaysSoInOneLine) {
  // Not what the machine has: a file of that name that is no library is not passed over for another.
  std::string pattern = (fs::temp_directory_path() / "probe-test-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  std::ofstream(folder / "libcuda.so.1") << "no library";
  tests::ProcessOptions options;
  options.environment = {{"LD_LIBRARY_PATH", folder.string()}};
  const auto result = run_process({SPILLWAY_COMMAND, "probe"}, options);
  fs::remove_all(folder);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, ::testing::StartsWith("spillway: no CUDA driver: libcuda.so.1 cannot be loaded;"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  options.environment = {{"LD_PRELOAD", "libspillway.so"}};
  const auto within = run_process({SPILLWAY_COMMAND, "probe"}, options);
  EXPECT_EQ(within.exit_code, 2);
  EXPECT_THAT(within.err, HasSubstr("unset LD_PRELOAD"));
}

TEST(Doctor, AgreesWithItsExitCodeAndJson) {
  const auto result = run_process({SPILLWAY_COMMAND, "doctor", "--json"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(result.exit_code, json["servable"] == true ? 0 : 1);
  bool any_problem = false;
  for (const auto& finding : json["findings"]) {
    any_problem = any_problem || finding["verdict"] == "problem";
    EXPECT_EQ(finding["verdict"] == "ok", finding["remedy"] == "") << finding;
  }
  EXPECT_EQ(json["servable"], !any_problem);
  const auto text = run_process({SPILLWAY_COMMAND, "doctor"});
  EXPECT_THAT(text.out, HasSubstr("driver"));
  EXPECT_THAT(text.out, HasSubstr("host memory"));
}

TEST(Doctor, ReadsTheTightestLimitOfBothCgroupVersions) {
  std::string pattern = (fs::temp_directory_path() / "doctor-test-XXXXXX").string();
  const fs::path root = ::mkdtemp(pattern.data());
  const auto put = [&root](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  };
  EXPECT_EQ(cgroup_memory_limit({root.string()}), 0U);
  put("proc/self/cgroup", "0::/a/b");
  put("sys/fs/cgroup/a/b/memory.max", "max");
  EXPECT_EQ(cgroup_memory_limit({root.string()}), 0U);
  put("sys/fs/cgroup/a/memory.max", "4096");
  put("sys/fs/cgroup/a/b/memory.max", "8192");
  EXPECT_EQ(cgroup_memory_limit({root.string()}), 4096U) << "an ancestor may be tighter";
  put("proc/self/cgroup", "5:memory:/x\n0::/a/b");
  put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1024");
  EXPECT_EQ(cgroup_memory_limit({root.string()}), 1024U);
  put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:      7 kB");
  EXPECT_EQ(available_host_memory({root.string()}), 7U * 1024);
  fs::remove_all(root);
}

TEST(TextTable, AlignsAndGroups) {
  TextTable table({{"name", Align::left}, {"n"}});
  table.add({"a", "1"});
  table.add({"longer", "1,000"});
  EXPECT_EQ(table.str(), "  name        n\n  a           1\n  longer  1,000\n");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(counted(1, "copy", "copies"), "1 copy");
  EXPECT_EQ(counted(2000, "copy", "copies"), "2,000 copies");
  EXPECT_EQ(counted(0, "copy", "copies"), "0 copies");
  EXPECT_EQ(harmless("a\x1b[31m"), "a\\x1b[31m");
}

TEST(TextTable, TextsAreShortenedFirstAndTheRestGoesOnBelow) {
  TextTable table({{"name", Align::left}, {"first"}, {"second"}});
  table.add({"a_name_of_thirty_letters_and_so", "1,000", "2,000"});
  EXPECT_EQ(table.str(100), table.str());
  EXPECT_EQ(table.str(36),
            "  name                 first  second\n"
            "  a_name_o..rs_and_so  1,000   2,000\n");
  EXPECT_EQ(table.str(24),
            "  name          first\n"
            "  a_nam..nd_so  1,000\n"
            "\n"
            "  name          second\n"
            "  a_nam..nd_so   2,000\n");
  TextTable accents({{"n", Align::left}, {"x"}});
  accents.add({"äöüäöüäöüäöüäöü", "1"});
  EXPECT_EQ(accents.str(18), "  n              x\n  äöüäö..äöüäöü  1\n") << "no character is cut in two";
}

TEST(Preload, ListsGrowOnceAndInOrder) {
  EXPECT_EQ(appended("", "/l.so"), "/l.so");
  EXPECT_EQ(appended("/a.so /l.so", "/l.so"), "/a.so /l.so");
  EXPECT_EQ(appended("/a.so", "/l.so"), "/a.so:/l.so");
  EXPECT_EQ(prepended("/x:/y", "/l"), "/l:/x:/y");
  EXPECT_EQ(prepended("/x:/l", "/l"), "/x:/l");
}

}  // namespace
}  // namespace spillway::tools
