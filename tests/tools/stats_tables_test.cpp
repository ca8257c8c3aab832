// `spillway stats --by`, traces of one run and of several, and what a terminal gets.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/sample_trace.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"
#include "tests/tools/view_reading.hpp"
#include "tools/one_run.hpp"
#include "tools/stats_report.hpp"
#include "tools/terminal.hpp"
#include "tools/view/allocations.hpp"

namespace spillway::tools {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
constexpr std::uint64_t kMiB = 1U << 20U;

class StatsTablesTest : public TraceCommandTest {
 protected:
  // What the command prints on a terminal (util-linux's script makes one), without its carriage returns.
  std::string on_terminal(const std::string& arguments, const std::string& environment, unsigned columns) {
    const std::string command = "stty cols " + std::to_string(columns) + "; cd " + folder_.string() + "; env " +
                                environment + " " + SPILLWAY_COMMAND + " " + arguments;
    std::string page = tests::run_process({"script", "-qec", command, "/dev/null"}).out;
    std::erase(page, '\r');
    return page;
  }
};

TEST_F(StatsTablesTest, PageIsTheGoldenOne) {
  put("run.swt", tests::training_trace());
  const auto result = spillway({"stats", "run.swt", "--by", "class,rule,kernel,iteration,allocation", "--top", "5"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  expect_golden("stats_by.txt", result.out);
}

TEST_F(StatsTablesTest, SectionsAreListedWithCommasOrBlanks) {
  put("run.swt", tests::training_trace());
  const std::string commas = spillway({"stats", "run.swt", "--by", "class,rule,kernel"}).out;
  EXPECT_THAT(commas, HasSubstr("optimizer"));
  EXPECT_EQ(spillway({"stats", "run.swt", "--by", "class", "rule", "kernel"}).out, commas);
  EXPECT_EQ(spillway({"stats", "--by", "class", "rule", "kernel", "run.swt"}).out, commas);
  // A file of that name is a file.
  put("kernel", tests::training_trace());
  EXPECT_THAT(spillway({"stats", "--by", "class", "kernel"}).out, HasSubstr("trace         kernel, whole"));
}

TEST_F(StatsTablesTest, AnIterationStallsNoLongerThanItTakes) {
  put("run.swt", tests::training_trace());
  const auto stats = nlohmann::json::parse(spillway({"stats", "run.swt", "--json", "--by", "iteration"}).out);
  ASSERT_GT(stats["by_iteration"].size(), 2U);
  for (const auto& row : stats["by_iteration"]) {
    EXPECT_LE(row["stall_estimate_ns"].get<std::int64_t>(),
              row["end_ns"].get<std::int64_t>() - row["begin_ns"].get<std::int64_t>());
  }
}

TEST_F(StatsTablesTest, EverySectionAddsUpToTheTotals) {
  put("run.swt", tests::training_trace());
  const auto stats = nlohmann::json::parse(
      spillway({"stats", "run.swt", "--json", "--by", "class", "--by", "rule,kernel,iteration,allocation"}).out);
  EXPECT_EQ(stats["traffic"]["moved_in"], 76 * kMiB);
  EXPECT_EQ(stats["traffic"]["useless"], 6 * kMiB);
  for (const char* section : {"by_class", "by_rule", "by_kernel", "by_iteration", "by_allocation"}) {
    for (const char* figure : {"moved_in", "moved_out", "refetched", "useless"}) {
      std::uint64_t sum = 0;
      for (const auto& row : stats[section]) sum += row[figure].get<std::uint64_t>();
      EXPECT_EQ(sum, stats["traffic"][figure]) << section << " " << figure;
    }
  }
}

TEST_F(StatsTablesTest, FiguresGoWhereTheyBelong) {
  put("run.swt", tests::training_trace());
  const auto stats = nlohmann::json::parse(
      spillway({"stats", "run.swt", "--json", "--by", "class,rule,kernel,iteration,allocation"}).out);
  EXPECT_EQ(stats["by_class"][2]["class"], "optimizer");
  EXPECT_EQ(stats["by_class"][2]["moved_in"], 64 * kMiB);
  EXPECT_EQ(stats["by_class"][1]["useless"], 6 * kMiB) << "activations";
  EXPECT_EQ(stats["by_rule"][2]["rule"], 2);
  EXPECT_EQ(stats["by_rule"][2]["moves"], 32);
  EXPECT_EQ(stats["by_kernel"][0]["demangled"], "backward(float*, float*)");
  EXPECT_EQ(stats["by_kernel"][1]["host_bytes"], 280 * kMiB)
      << "all states in four iterations, three quarters later, and more until the layout was known";
  EXPECT_EQ(stats["by_allocation"][0]["allocation"], 2);
  EXPECT_EQ(stats["by_allocation"][1]["freed"], true);
  // Found after two, in the middle of the run; each of 24 launches.
  const auto& iterations = stats["by_iteration"];
  EXPECT_EQ(iterations[0]["launches"], 48);
  std::uint64_t launches = 0;
  for (const auto& row : iterations) launches += row["launches"].get<std::uint64_t>();
  EXPECT_EQ(launches, 480U);
  EXPECT_EQ(iterations[1]["launches"], 24);
  EXPECT_EQ(iterations[9]["useless"], 2 * kMiB);
  EXPECT_EQ(iterations[9]["complete"], true);
}

// What was on the host is told of memory that was freed too, and what was read there counts before what was not.
TEST_F(StatsTablesTest, FreedMemoryKeepsWhereItWas) {
  tests::TraceMaker maker({});
  const std::uint64_t at = 0x7f0000000000;
  for (std::uint32_t id = 1; id <= 2; ++id) {
    maker.allocate(id, policy::Bytes(8 * kMiB), policy::Backing::managed, {at + id * 64 * kMiB});
    maker.move(id, {}, policy::Bytes(6 * kMiB), policy::Placement::host, {});
    maker.move(id, policy::Bytes(6 * kMiB), policy::Bytes(2 * kMiB), policy::Placement::device, {});
  }
  maker.event(policy::FunctionSeen{{1}, "gemm"});
  policy::LaunchShapeSeen shape;
  shape.shape = {1};
  shape.function = {1};
  shape.arguments = {{0, {at + 2 * 64 * kMiB}}};
  maker.event(shape);
  for (int i = 0; i < 3; ++i) maker.launch(1);
  for (std::uint32_t id = 1; id <= 2; ++id) {
    maker.event(policy::FreeRequested{{id}, {}});
    maker.event(policy::Freed{{id}, {}});
  }
  put("run.swt", maker.finish());
  const json rows = json::parse(spillway({"stats", "run.swt", "--by", "allocation", "--json"}).out)["by_allocation"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["allocation"], 2) << "nothing crossed; its bytes were read where they are";
  EXPECT_EQ(rows[0].at("host_bytes"), 18 * kMiB);
  EXPECT_EQ(rows[1].at("host_bytes"), 0);
  for (const json& row : rows) {
    EXPECT_EQ(row["freed"], true);
    EXPECT_EQ(row["on_host"], 6 * kMiB);
    EXPECT_EQ(row["in_hbm"], 2 * kMiB);
  }
  const std::string page = spillway({"stats", "run.swt", "--by", "allocation"}).out;
  EXPECT_THAT(page, ::testing::ContainsRegex("\n +2 +8 MiB +unknown +yes +2 MiB +6 MiB +18 MiB "));
  EXPECT_EQ(json::parse(spillway({"stats", "run.swt", "--explain", "2", "--json"}).out)["host_bytes"], 18 * kMiB);
}

// Whose the figures are: a launch at which a move was decided need not use what moved.
TEST_F(StatsTablesTest, TheTablesSayWhatTheirFiguresStandFor) {
  put("run.swt", tests::training_trace());
  EXPECT_THAT(spillway({"stats", "run.swt", "--by", "kernel"}).out,
              HasSubstr("  moves stand with the launch at which they were decided, which need not use what moved; no "
                        "kernel: decided by none\n"));
  EXPECT_THAT(spillway({"stats", "run.swt", "--by", "rule"}).out, HasSubstr("\n  no rule "));
  EXPECT_THAT(spillway({"stats", "run.swt"}).out, ::testing::ContainsRegex("\n  move +rule .* a rule says so\n"));
}

// Counts of the driver's are of a part of the run; a fault has no size.
TEST_F(StatsTablesTest, PageTrafficSaysWhatItCounts) {
  const auto page_of = [this](policy::PageTraffic traffic, policy::Bytes bytes) {
    tests::TraceMaker maker({});
    maker.event(policy::PagesObserved{traffic, {0x7f0000000000}, bytes});
    put("run.swt", maker.finish());
    return spillway({"stats", "run.swt"}).out;
  };
  std::string page = page_of(policy::PageTraffic::gpu_fault, {});
  EXPECT_THAT(page, ::testing::ContainsRegex("\n  GPU page faults +1\n"));
  EXPECT_THAT(page, HasSubstr("\n  the driver's counts are of the time that CUPTI was on"));
  EXPECT_THAT(page, Not(HasSubstr("probes used")));
  page = page_of(policy::PageTraffic::remote_map, policy::Bytes(4096));
  EXPECT_THAT(page, ::testing::ContainsRegex("\n  probes used +1 +4 KiB\n"));
  EXPECT_THAT(page, HasSubstr("\n  probes used: kernels faulted on memory that was unmapped"));
  put("run.swt", tests::training_trace());
  EXPECT_THAT(spillway({"stats", "run.swt"}).out, Not(HasSubstr("CUPTI was on")));
}

TEST_F(StatsTablesTest, AFolderOfRanksIsOneRun) {
  std::filesystem::create_directory(folder_ / "ranks");
  put("ranks/0.swt", tests::training_trace({"0", "2026-01-02T03:04:05+00:00", 10, 20}));
  put("ranks/1.swt", tests::training_trace({"1", "2026-01-02T04:04:07+01:00", 11, 20}));
  const auto result = spillway({"stats", "ranks"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("960"));
  const auto stats = nlohmann::json::parse(spillway({"stats", "ranks", "--json"}).out);
  EXPECT_EQ(stats["one_run"], true);
  EXPECT_EQ(stats["totals"]["moved_in"], 152 * kMiB);
}

TEST_F(StatsTablesTest, TracesOfDifferentRunsAreOneLineAndNoTotals) {
  put("a.swt", tests::training_trace({"0", "2026-01-02T03:04:05+00:00", 10, 20}));
  put("b.swt", tests::training_trace({"1", "2026-01-02T05:04:05+00:00", 10, 20}));
  const auto result = spillway({"stats", "a.swt", "b.swt"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("a.swt and b.swt are of different runs: the second began at 2026-01-02T05:04:05"));
  EXPECT_THAT(result.out, HasSubstr("b.swt"));
  EXPECT_THAT(result.out, Not(HasSubstr("960"))) << "no totals";
  EXPECT_FALSE(nlohmann::json::parse(spillway({"stats", "a.swt", "b.swt", "--json"}).out).contains("totals"));
}

TEST(OneRun, ProgramsThatHaveNothingToDoWithEachOtherAreNamed) {
  std::vector<TraceSummary> both(2);
  both[0].path = "a.swt";
  both[1].path = "b.swt";
  for (std::uint64_t i = 0; i < 2; ++i) {
    both[i].header.program = i == 0 ? "/bin/train" : "/bin/serve";
    both[i].header.pid = 10 + i;
    both[i].header.parent_pid = 1 + i;
  }
  EXPECT_THAT(different_programs(both).value_or(""), HasSubstr("a.swt is of /bin/train, b.swt of /bin/serve"));
  both[1].header.parent_pid = 10;
  EXPECT_EQ(different_programs(both), std::nullopt) << "the first started the second";
  both[1].header.parent_pid = 1;
  EXPECT_EQ(different_programs(both), std::nullopt) << "one script started both";
  both[1].header.parent_pid = 2;
  both[1].header.program = both[0].header.program;
  EXPECT_EQ(different_programs(both), std::nullopt);
}

TEST(OneRun, OneProgramAfterAnotherIsNoted) {
  std::vector<TraceSummary> both(2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    both[i].path = i == 0 ? "a.swt" : "b.swt";
    both[i].header.pid = 10 + i;
    both[i].header.parent_pid = 1;  // a shell's, say
    both[i].duration = policy::Nanoseconds(5'000'000'000);
  }
  both[0].header.start = "2026-11-29T12:00:00Z";
  both[1].header.start = "2026-11-29T12:00:08Z";
  EXPECT_EQ(different_programs(both).value_or(""),
            "note: b.swt began after a.swt had ended; totals add up both, so name the traces of one run if they are of "
            "two");
  // In any order: which was first is told by the clock.
  std::swap(both[0], both[1]);
  both[0].duration = policy::Nanoseconds(1'000'000'000);
  EXPECT_THAT(different_programs(both).value_or(""), ::testing::StartsWith("note: b.swt began after a.swt had ended"));
  both[1].duration = policy::Nanoseconds(9'000'000'000);
  EXPECT_EQ(different_programs(both), std::nullopt) << "the second began amid the first";
  both[1].duration = policy::Nanoseconds(5'000'000'000);
  std::swap(both[0], both[1]);
  both[1].header.start = "2026-11-29T12:00:06Z";
  EXPECT_EQ(different_programs(both), std::nullopt) << "perhaps before the end: both are whole seconds";
  both[1].header.start = "2026-11-29T12:00:08Z";
  both[1].header.host = "other";
  EXPECT_EQ(different_programs(both), std::nullopt) << "clocks of hosts differ";
  both[1].header.host = "";
  both[1].header.parent_pid = 10;
  EXPECT_EQ(different_programs(both), std::nullopt) << "the first started the second";
}

TEST_F(StatsTablesTest, AnUnknownTableIsOneLine) {
  put("run.swt", tests::training_trace());
  const auto result = spillway({"stats", "run.swt", "--by", "colour"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(Terminal, PageIsWrappedNeverCutAndHeadingsAreBold) {
  const std::string text = "plain\n\nheading with a long tail\n  body\n";
  EXPECT_EQ(page_for({}, text), text);
  EXPECT_EQ(page_for({20, false}, text), "plain\n\nheading with a long\n    tail\n  body\n");
  EXPECT_EQ(page_for({0, true}, "a\n\nb\nc\n"), "a\n\n\033[1mb\033[0m\nc\n");
  EXPECT_EQ(page_for({20, false}, "ääääääääääääääääääää\n"), "ääääääääääääääääääää\n") << "20 characters fit";
}

TEST(Terminal, ProseIsWrappedBetweenWords) {
  EXPECT_EQ(prose_for({}, "one two\n", 2), "one two\n");
  EXPECT_EQ(prose_for({24, false}, "one two three four five six seven\n", 2), "one two three four five\n  six seven\n");
  EXPECT_EQ(prose_for({24, false}, "a-word-that-is-longer-than-the-line\n", 2),
            "a-word-that-is-longer-th\n  an-the-line\n");
}

// In a file and a pipe the whole name; on a terminal both ends of it, in JSON the whole again.
TEST_F(StatsTablesTest, ALongKernelNameComesFirstAndIsShortenedOnTerminalsOnly) {
  tests::TraceMaker maker({});
  maker.event(policy::FunctionSeen{{1}, "gemm_" + std::string(90, 'x') + "_tail"});
  policy::LaunchShapeSeen shape;
  shape.shape = {1};
  shape.function = {1};
  maker.event(shape);
  maker.launch(1);
  put("run.swt", maker.finish());
  const std::string whole = "gemm_" + std::string(90, 'x') + "_tail";
  EXPECT_THAT(spillway({"stats", "run.swt", "--by", "kernel"}).out, HasSubstr("\n  " + whole + " "));
  EXPECT_THAT(spillway({"stats", "run.swt", "--by", "kernel", "--json"}).out, HasSubstr(whole));
  const std::string page = on_terminal("stats run.swt --by kernel", "NO_COLOR=1", 120);
  EXPECT_THAT(page, ::testing::ContainsRegex("\n  gemm_x+[.][.]x+_tail "));
}

TEST_F(StatsTablesTest, ModeOffShowsNoBudgetAndThePeakOnTheHostIsShown) {
  put("run.swt", tests::training_trace());
  const json device = json::parse(spillway({"stats", "run.swt", "--json"}).out)["devices"][0];
  EXPECT_GE(device["on_host_peak"], device["on_host"]);
  EXPECT_GT(device["on_host_peak"], 0);
  EXPECT_THAT(spillway({"stats", "run.swt"}).out, HasSubstr("on host peak"));
  policy::trace::TraceHeader header;
  header.settings = {{"policy.mode", "off"}, {"memory.device_budget", "64MiB"}};
  tests::TraceMaker off(header);
  off.event(policy::DeviceSeen{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(1U << 30U), true, "card"});
  off.allocate(1, policy::Bytes(8 * kMiB), policy::Backing::device, {0x7f0000000000});
  off.allocate(2, policy::Bytes(4 * kMiB), policy::Backing::device, {0x7f0001000000});
  off.event(policy::FreeRequested{{1}, {}});
  off.event(policy::Freed{{1}, {}});
  off.allocate(3, policy::Bytes(2 * kMiB), policy::Backing::device, {0x7f0002000000});
  put("off.swt", off.finish());
  const std::string page = spillway({"stats", "off.swt"}).out;
  EXPECT_THAT(page, HasSubstr("none (off)"));
  EXPECT_THAT(page, ::testing::ContainsRegex("live at the peak +2 +12 MiB\n"));
  const json peak = json::parse(spillway({"stats", "off.swt", "--json"}).out)["allocations"]["live_at_peak"];
  EXPECT_EQ(peak, (json{{"count", 2}, {"bytes", 12 * kMiB}}));
}

TEST_F(StatsTablesTest, OneOfAThingIsOneOfIt) {
  put("run.swt", tests::training_trace());
  EXPECT_THAT(spillway({"stats", "run.swt", "--top", "2"}).out, HasSubstr("and 1 more function (--top)"));
  EXPECT_THAT(spillway({"stats", "run.swt", "--by", "kernel", "--top", "3"}).out,
              HasSubstr("and 1 more kernel (--top)"));
  tests::TraceMaker maker({});
  maker.event(policy::DeviceSeen{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(1U << 30U), true, "card"});
  maker.allocate(1, policy::Bytes(8 * kMiB), policy::Backing::managed, {0x7f0000000000});
  maker.event(policy::Copied{{0}, policy::CopyKind::host_to_device, {0x7f0000000000}, {}, policy::Bytes(64)});
  put("one.swt", maker.finish());
  EXPECT_THAT(spillway({"stats", "one.swt", "--explain", "1"}).out, HasSubstr("1 copy or fill of the program"));
  TraceSummary summary;
  summary.lost_windows = 1;
  EXPECT_THAT(stats_page(summary, 1), HasSubstr("not told apart the kernels of 1 sampled window\n"));
}

// As in mode demand: what the driver moved by faults is in the totals of the end, and no decision asked for it.
TEST_F(StatsTablesTest, WhatFaultsMovedIsSaidToBeInNoTable) {
  const auto trace_with_faults = [this](std::uint64_t faulted) {
    tests::TraceMaker maker({});
    maker.event(policy::DeviceSeen{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(1U << 30U), true, "card"});
    maker.allocate(1, policy::Bytes(8 * kMiB), policy::Backing::managed, {0x7f0000000000});
    maker.move(1, {}, policy::Bytes(8 * kMiB), policy::Placement::device, {});
    maker.move(1, {}, policy::Bytes(8 * kMiB), policy::Placement::host, {});
    maker.move(1, {}, policy::Bytes(2 * kMiB), policy::Placement::device, {});
    policy::trace::DeviceEnd end;
    end.totals.moved_in = policy::Bytes(2 * kMiB + faulted);
    end.totals.moved_out = policy::Bytes(8 * kMiB);
    put("run.swt", maker.finish({end}));
    return spillway({"stats", "run.swt", "--by", "class"}).out;
  };
  EXPECT_THAT(trace_with_faults(6 * kMiB),
              ::testing::EndsWith("\n  6 MiB in moved by page faults, which are not decisions: in no table\n"));
  EXPECT_THAT(trace_with_faults(0), ::testing::Not(HasSubstr("page faults")));
}

TEST_F(StatsTablesTest, ATerminalGetsItsWidthAndNoColourIsRespected) {
  put("run.swt", tests::training_trace());
  EXPECT_THAT(on_terminal("stats run.swt", "TERM=xterm", 60), HasSubstr("\033[1mDevices"));
  for (const char* colourless : {"TERM=xterm NO_COLOR=1", "TERM=dumb", "-u TERM"}) {
    const std::string plain = on_terminal("stats run.swt", colourless, 60);
    EXPECT_THAT(plain, HasSubstr("Devices"));
    EXPECT_THAT(plain, Not(HasSubstr("\033")));
  }
}

// Whatever the width: no line is longer, and every figure of the page is there.
TEST_F(StatsTablesTest, NothingIsLostOnANarrowTerminal) {
  put("run.swt", tests::training_trace());
  for (const char* command : {"stats run.swt", "stats run.swt --by class,rule,kernel,iteration,allocation",
                              "stats run.swt --explain 2", "top run.swt --once"}) {
    const auto figures = [](const std::string& page) {
      std::map<std::string, int> words;
      std::istringstream text(page);
      for (std::string word; text >> word;) {
        if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) ++words[word];
      }
      return words;
    };
    const auto wide =
        figures(tests::run_process({"sh", "-c", "cd " + folder_.string() + "; " SPILLWAY_COMMAND " " + command}).out);
    for (const unsigned columns : {20U, 40U, 60U, 80U, 132U}) {
      SCOPED_TRACE(::testing::Message() << command << " in " << columns);
      const std::string page = on_terminal(command, "NO_COLOR=1", columns);
      std::istringstream lines(page);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
      if (columns < 60) continue;  // where words themselves are wrapped
      for (const auto& [figure, count] : wide) EXPECT_GE(figures(page)[figure], count) << figure;
    }
  }
  EXPECT_THAT(on_terminal("stats run.swt", "NO_COLOR=1 COLUMNS=40", 200), Not(HasSubstr(std::string(41, ' '))));
  std::istringstream lines(on_terminal("stats run.swt --by kernel", "NO_COLOR=1 COLUMNS=40", 200));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 40U) << "COLUMNS is asked";
}

// A pipe and a file are never cut; COLUMNS is a wish, wherever the page goes.
TEST_F(StatsTablesTest, ColumnsHoldsForAPipeToo) {
  put("run.swt", tests::training_trace());
  tests::ProcessOptions narrow;
  narrow.environment["COLUMNS"] = "40";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"stats", "run.swt"}, {"stats", "run.swt", "--by", "kernel"}, {"top", "run.swt"}, {"replay", "run.swt"}}) {
    const auto result = spillway(command, narrow);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("\033")));
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 40U) << line;
    const auto wide = spillway(command);
    EXPECT_THAT(wide.out, ::testing::ContainsRegex(std::string(41, '.'))) << command.front();
    EXPECT_THAT(wide.out, Not(HasSubstr("\033")));
  }
}

// Rules by name, file and line; control characters in names harmless.
TEST_F(StatsTablesTest, RulesAreNamedAsInTheFile) {
  put("run.swt", tests::training_trace());
  const std::string named = "\"adam \"states\"\\x1b\" (training.toml:9)";
  EXPECT_THAT(spillway({"stats", "run.swt", "--by", "rule"}).out, HasSubstr("2 " + named));
  EXPECT_THAT(spillway({"stats", "run.swt", "--explain", "2"}).out, HasSubstr("(rule " + named));
  EXPECT_THAT(
      spillway({"stats", "run.swt", "--by", "rule"}).out,
      ::testing::AllOf(::testing::ContainsRegex("\n  1 \"weights last\" \\(training.toml:4\\) +0 "),
                       HasSubstr("a rule without moves may match all the same: spillway check POLICY --trace TRACE")));
  const json rules = json::parse(spillway({"stats", "run.swt", "--by", "rule", "--json"}).out)["by_rule"];
  EXPECT_EQ(rules[1]["rule"], 1) << "it moved nothing";
  EXPECT_EQ(rules[1]["name"], "weights last");
  EXPECT_EQ(rules[1]["moves"], 0);
  EXPECT_EQ(rules[2]["rule"], 2);
  EXPECT_EQ(rules[2]["name"], "adam \"states\"\x1b");
  EXPECT_EQ(rules[2]["file"], "/etc/training.toml");
  EXPECT_EQ(rules[2]["line"], 9);
  // A trace from before rules had names.
  put("old.swt", tests::sample_trace({}));
  EXPECT_EQ(spillway({"stats", "old.swt", "--by", "rule"}).exit_code, 0);
  EXPECT_EQ(policy::rule_text(3, {"\"one\" (a.toml:1)"}), "rule 3");
}

// The story, the tables, the exports and `top` say the same of an allocation's class.
TEST_F(StatsTablesTest, AnAllocationHasOneClassEverywhere) {
  tests::TraceMaker maker({});
  maker.allocate(1, policy::Bytes(32 * kMiB), policy::Backing::managed, {0x7f0000000000});
  policy::Cause cause;
  const auto move = [&](policy::SpanClass named, std::uint64_t mebibytes, policy::Placement to) {
    cause.span_class = static_cast<std::uint16_t>(named);
    maker.move(1, {}, policy::Bytes(mebibytes * kMiB), to, cause);
  };
  move(policy::SpanClass::optimizer, 24, policy::Placement::host);
  move(policy::SpanClass::weights, 4, policy::Placement::device);
  put("run.swt", maker.finish());
  const json tables = json::parse(spillway({"stats", "run.swt", "--by", "allocation", "--json"}).out);
  EXPECT_EQ(tables["by_allocation"][0]["class"], "optimizer");
  const json story = json::parse(spillway({"stats", "run.swt", "--explain", "1", "--json"}).out);
  EXPECT_EQ(story["class"], "optimizer");
  EXPECT_THAT(spillway({"stats", "run.swt", "--explain", "1"}).out,
              HasSubstr("Class: optimizer, in 85% of the bytes that decisions named (1 decision, first 2); some said "
                        "weights (1 decision, first 3)."));
  EXPECT_EQ(json::parse(spillway({"top", "run.swt", "--once", "--json"}).out)["allocations"][0]["class"], "optimizer");
  view::ListedAllocation listed;
  EXPECT_EQ(listed.said.most(), 0);
}

// A decision is about a part, at its time: its sentence says what that was taken for, and the page what others said.
TEST_F(StatsTablesTest, ADecisionSaysWhatItTookItsPartFor) {
  tests::TraceMaker maker({});
  maker.allocate(1, policy::Bytes(32 * kMiB), policy::Backing::managed, {0x7f0000000000});
  policy::Cause cause;
  for (const auto named : {policy::SpanClass::optimizer, policy::SpanClass::weights}) {
    cause.span_class = static_cast<std::uint16_t>(named);
    const bool first = named == policy::SpanClass::optimizer;
    maker.move(1, {}, policy::Bytes((first ? 24 : 4) * kMiB),
               first ? policy::Placement::host : policy::Placement::device, cause);
  }
  put("run.swt", maker.finish());
  EXPECT_THAT(spillway({"stats", "run.swt", "--explain", "1"}).out,
              HasSubstr("goes to HBM, in the background, because the mode always does this (taken for weights)"));
  const view::ViewReading page = view::view_trace((folder_ / "run.swt").string());
  EXPECT_EQ(page.data.directory["allocations"]["other_classes"].dump(), R"({"0":"weights in 14%"})");
}

// Tables, replay and page count the same iterations, and say of the last whether it is whole; `top` and `export` go by
// their numbers.
TEST_F(StatsTablesTest, IterationsAreCountedOneWayEverywhere) {
  put("ends.swt", tests::training_trace());
  const std::string recorded = std::string(GOLDEN_TRACES) + "/train_gpt2_fused.swt";
  const struct {
    std::string trace;
    const char* text;
    std::uint64_t whole, last;
    const char* last_row;
  } runs[] = {{"ends.swt", "18 whole", 18, 19, "after "},
              {recorded, "20 whole, then 21 (not whole)", 20, 21, "21 (not whole) "}};
  for (const auto& run : runs) {
    SCOPED_TRACE(run.trace);
    const std::string table = spillway({"stats", run.trace, "--by", "iteration"}).out;
    EXPECT_THAT(table, HasSubstr("  iterations: " + std::string(run.text) + "\n"));
    EXPECT_THAT(table, HasSubstr(run.last_row));
    std::uint64_t whole = 0;
    const json of_stats = json::parse(spillway({"stats", run.trace, "--by", "iteration", "--json"}).out);
    for (const json& row : of_stats["by_iteration"]) whole += row["iteration"] > 0 && row["complete"] == true ? 1U : 0U;
    EXPECT_EQ(whole, run.whole);
    EXPECT_THAT(spillway({"replay", run.trace}).out,
                HasSubstr("iterations, as stats counts them: " + std::string(run.text) + "; the last whole one has "));
    EXPECT_EQ(json::parse(spillway({"replay", run.trace, "--json"}).out)["iterations"], run.whole);
    EXPECT_EQ(json::parse(spillway({"top", run.trace, "--once", "--json"}).out)["iteration"], run.last);
    const view::ViewReading page = view::view_trace((folder_ / run.trace).string());
    const view::Json& of = page.data.directory;
    EXPECT_EQ(of["iterations_text"], run.text);
    view::TableOf ends = view::table_of(page.data, of["iterations"]);
    EXPECT_EQ(static_cast<std::uint64_t>(std::count(ends["whole"].begin() + 1, ends["whole"].end(), 1)), run.whole);
    EXPECT_EQ(ends["whole"].back(), run.last_row[0] == 'a' ? 1 : 0);
  }
}

}  // namespace
}  // namespace spillway::tools
