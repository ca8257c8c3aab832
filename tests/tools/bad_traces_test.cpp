// Bad traces, given to every command that reads one.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "policy/trace/frame.hpp"
#include "tests/support/sample_trace.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"
#include "tools/view/page.hpp"

namespace spillway::tools {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class BadTracesTest : public TraceCommandTest {
 protected:
  BadTracesTest() { std::ofstream(folder_ / "rules.toml") << "[memory]\nbacking = \"auto\"\n"; }

  using Words = std::vector<std::string>;
  // What comes before the trace.
  static std::vector<Words> readers() {
    std::vector<Words> all = {{"stats"},
                              {"stats", "--json"},
                              {"stats", "--by", "class"},
                              {"stats", "--explain", "2"},
                              {"export", "--format", "csv", "-o", "out"},
                              {"export", "--format", "sqlite", "-o", "out"},
                              {"export", "--format", "perfetto", "-o", "out"},
                              {"top", "--once"},
                              {"top", "--once", "--json"},
                              {"replay"},
                              {"replay", "--json"},
                              {"plan", "--device-budget", "64MiB", "-o", "plan.toml"},
                              {"check", "rules.toml", "--trace"},
                              {"check", "rules.toml", "--json", "--trace"}};
    if (!view::page_template().empty()) all.push_back({"view", "-o", "page.html", "--open", "no"});
    return all;
  }
  // Of those, the ones that look at one trace only.
  static bool takes_several(const Words& reader) { return reader[0] == "stats" || reader[0] == "view"; }

  tests::ProcessResult read(Words reader, const std::string& trace) {
    for (const char* made : {"out", "plan.toml", "page.html"}) std::filesystem::remove(folder_ / made);
    reader.push_back(trace);
    return spillway(reader);
  }
  std::string complaint(const Words& reader, const std::string& trace) {
    const auto result = read(reader, trace);
    EXPECT_EQ(result.exit_code, 1) << trace;
    EXPECT_EQ(result.out, "") << trace;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, ::testing::StartsWith("spillway: " + trace + ": "));
    for (const char* made : {"out", "plan.toml", "page.html"}) EXPECT_FALSE(std::filesystem::exists(folder_ / made));
    return result.err;
  }
};

// One line with the file, the place and a remedy; nothing on stdout, and no file is left.
TEST_F(BadTracesTest, WhatCannotBeReadIsOneLineOfEveryCommand) {
  std::vector<std::byte> newer = tests::training_trace();
  newer[8] = std::byte{policy::trace::kVersion + 1};
  std::vector<std::byte> torn = tests::training_trace();
  torn.resize(100);
  put("empty.swt", {});
  put("foreign.swt", std::vector<std::byte>(100, std::byte{'x'}));
  put("newer.swt", newer);
  put("torn.swt", torn);
  ::mkfifo((folder_ / "pipe.swt").c_str(), 0600);  // nobody writes to it
  std::filesystem::create_directory(folder_ / "nothing");
  for (const Words& reader : readers()) {
    SCOPED_TRACE(::testing::PrintToString(reader));
    EXPECT_THAT(complaint(reader, "empty.swt"), AllOf(HasSubstr("byte 0: the file is empty: its disk was full"),
                                                      HasSubstr("; look "), HasSubstr("or make room")));
    EXPECT_THAT(complaint(reader, "foreign.swt"),
                AllOf(HasSubstr("byte 0: not a Spillway trace"), HasSubstr("; name a file that ")));
    EXPECT_THAT(complaint(reader, "newer.swt"),
                AllOf(HasSubstr("byte 8: the trace has format version " + std::to_string(policy::trace::kVersion + 1)),
                      HasSubstr(": use a newer spillway")));
    EXPECT_THAT(complaint(reader, "torn.swt"),
                AllOf(HasSubstr("byte 100: the trace ends inside its header"), HasSubstr("; record the trace again")));
    EXPECT_THAT(complaint(reader, "missing.swt"), AllOf(HasSubstr("No such file"), HasSubstr("; check the path")));
    EXPECT_THAT(complaint(reader, "pipe.swt"), HasSubstr("is no regular file"));
    EXPECT_THAT(complaint(reader, "nothing"), AllOf(HasSubstr("holds no trace (*.swt)"), HasSubstr("; name a trace")));
  }
}

// What can be shown is shown, and said to be incomplete, with the place.
TEST_F(BadTracesTest, CutAndDamagedOnesAreReadAsFarAsTheyGoAndMarked) {
  const std::vector<std::byte> whole = tests::sample_trace({"", true, 512, 0});  // frames that stand alone
  std::vector<std::byte> cut(whole.begin(), whole.end() - 30);
  std::vector<std::byte> flipped = whole;
  flipped[whole.size() * 3 / 4] ^= std::byte{4};
  put("cut.swt", cut);
  put("flipped.swt", flipped);
  const std::vector<std::byte> little(whole.begin(),
                                      whole.begin() + 400);  // the header, and a piece of the first frame
  put("little.swt", little);
  put("whole.swt", whole);
  for (const Words& reader : readers()) {
    SCOPED_TRACE(::testing::PrintToString(reader));
    const auto of_cut = read(reader, "cut.swt");
    EXPECT_EQ(of_cut.exit_code, 0) << of_cut.err;
    EXPECT_THAT(of_cut.out + of_cut.err, HasSubstr("cut at byte " + std::to_string(cut.size())));
    const auto of_flipped = read(reader, "flipped.swt");
    EXPECT_EQ(of_flipped.exit_code, 0) << of_flipped.err;
    EXPECT_THAT(of_flipped.out + of_flipped.err, HasSubstr("1 damaged piece left out, the first at byte "));
    const auto of_little = read(reader, "little.swt");
    EXPECT_THAT(of_little.out + of_little.err, HasSubstr("cut at byte " + std::to_string(little.size())));
    const auto of_whole = read(reader, "whole.swt");
    EXPECT_EQ(of_whole.exit_code, 0) << of_whole.err;
    EXPECT_THAT(of_whole.out + of_whole.err, ::testing::Not(AnyOf(HasSubstr("cut at"), HasSubstr("damaged"))));
  }
}

// In one way: "completeness", and "whole" where the end is known; check has a trace beside its own answer.
TEST_F(BadTracesTest, EveryJsonSaysWhetherItsTraceIsWhole) {
  const std::vector<std::byte> whole = tests::sample_trace();
  put("whole.swt", whole);
  put("cut.swt", {whole.begin(), whole.end() - 30});
  const std::vector<Words> commands = {{"stats", "--json"},
                                       {"stats", "--explain", "2", "--json"},
                                       {"top", "--once", "--json"},
                                       {"replay", "--json"},
                                       {"plan", "--device-budget", "64MiB", "--json"},
                                       {"check", "rules.toml", "--json", "--trace"}};
  for (const Words& command : commands) {
    SCOPED_TRACE(::testing::PrintToString(command));
    for (const char* name : {"whole.swt", "cut.swt"}) {
      const bool is_whole = std::string(name) == "whole.swt";
      auto json = nlohmann::json::parse(read(command, name).out, nullptr, false);
      ASSERT_TRUE(json.is_object());
      if (command[0] == "check") json = json["trace"];
      const std::string said = json.value("completeness", "");
      EXPECT_EQ(said == "whole", is_whole) << said;
      EXPECT_EQ(json.value("whole", is_whole), is_whole);
    }
  }
}

// A folder with one trace is that trace; of several the commands for one ask which, the others say what is apart.
TEST_F(BadTracesTest, AFolderIsItsTraceOrTraces) {
  const auto fill = [this](const std::string& name, const std::vector<std::vector<std::byte>>& traces) {
    std::filesystem::create_directory(folder_ / name);
    for (std::size_t i = 0; i < traces.size(); ++i) put(name + "/" + std::to_string(i) + ".swt", traces[i]);
  };
  tests::TrainingOptions later;
  later.start = "2026-03-02T03:04:05+00:00";
  fill("one", {tests::sample_trace()});
  fill("two", {tests::training_trace(), tests::training_trace(later)});
  for (const Words& reader : readers()) {
    SCOPED_TRACE(::testing::PrintToString(reader));
    EXPECT_EQ(read(reader, "one").exit_code, 0);
    if (!takes_several(reader)) {
      EXPECT_THAT(complaint(reader, "two"), HasSubstr("holds 2 traces; name one of them, such as two/0.swt"));
    } else if (reader.size() == 1 || reader[1] != "--explain") {
      const auto both = read(reader, "two");
      EXPECT_EQ(both.exit_code, 1);
      EXPECT_EQ(std::count(both.err.begin(), both.err.end(), '\n'), 1) << both.err;
      EXPECT_THAT(both.err, HasSubstr("two/0.swt and two/1.swt are of different runs: the second began at " +
                                      later.start + ", after the first had ended; name "));
      EXPECT_EQ(std::filesystem::exists(folder_ / "page.html"), reader[0] == "view") << "what can be shown is shown";
    }
  }
}

}  // namespace
}  // namespace spillway::tools
