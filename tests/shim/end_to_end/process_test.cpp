// Forks, execs, ends and bad places for a trace: the program stays itself, and its trace is its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <thread>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;

SimulatedRun probe_process(const std::vector<std::string>& words, const std::string& mode) {
  SimulatedRun run;
  run.command = {GUEST_PROBE};
  run.command.insert(run.command.end(), words.begin(), words.end());
  run.mode = mode;
  run.budget = mode.empty() ? "" : "24MiB";
  run.memory = "64MiB";
  run.traced = true;
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  return run;
}

int lines(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class Process : public testing::TestWithParam<const char*> {
 protected:
  // Of two processes, with so many launches.
  static void expect_two_whole_traces(const SimulatedResult& result, int fewer, int more) {
    std::map<int, int> launches;  // by process
    for (const auto& path : result.traces()) {
      const auto stats =
          nlohmann::json::parse(run_process({SPILLWAY_COMMAND, "stats", "--json", path.string()}).out, nullptr, false);
      ASSERT_TRUE(stats.is_object()) << path;
      EXPECT_EQ(stats["whole"], true) << path;
      EXPECT_EQ(stats["end"], "exit") << path;
      launches[stats["pid"].get<int>()] = stats["launches"].get<int>();
    }
    ASSERT_EQ(launches.size(), 2U) << result;
    EXPECT_EQ(std::min(launches.begin()->second, launches.rbegin()->second), fewer);
    EXPECT_EQ(std::max(launches.begin()->second, launches.rbegin()->second), more);
  }
  const std::string mode_ = GetParam();
};

TEST_P(Process, ForkAfterCudaWithThreadsRunning) {
  const SimulatedResult bare = run_simulated(probe_process({"forks"}, ""));
  const SimulatedResult with = run_simulated(probe_process({"forks"}, mode_));
  EXPECT_EQ(with.process.out, bare.process.out) << with;
  EXPECT_EQ(with.process.exit_code, 0) << with;
  const auto stats = with.stats();
  ASSERT_TRUE(stats.is_object()) << "one trace, the parent's: " << with;
  EXPECT_EQ(stats["whole"], true) << stats.dump(1);
  EXPECT_EQ(stats["end"], "exit");
}

TEST_P(Process, ForkBeforeCudaMakesTwoRunsWithATraceEach) {
  const SimulatedResult bare = run_simulated(probe_process({"forks_first"}, ""));
  const SimulatedResult with = run_simulated(probe_process({"forks_first"}, mode_));
  EXPECT_EQ(with.process.out, bare.process.out) << with;
  expect_two_whole_traces(with, 12, 12);
}

TEST_P(Process, ForkAndExecMakesTwoRunsWithATraceEach) {
  const SimulatedResult bare = run_simulated(probe_process({"forks_execs"}, ""));
  const SimulatedResult with = run_simulated(probe_process({"forks_execs"}, mode_));
  EXPECT_EQ(with.process.out, bare.process.out) << with;
  expect_two_whole_traces(with, 18, 24);
}

TEST_P(Process, HoweverItEndsAllButTheLastSecondIsInTheTrace) {
  struct End {
    const char* way;
    int exit_code;
    int signal;
    bool whole;
  };
  for (const End& end :
       {End{"return", 0, 0, true}, End{"exit", 6, 0, true}, End{"thread", 6, 0, true}, End{"_exit", 6, 0, false},
        End{"abort", -1, SIGABRT, false}, End{"term", -1, SIGTERM, false}, End{"kill", -1, SIGKILL, false}}) {
    SimulatedRun run = probe_process({"ends", end.way}, mode_);
    const SimulatedResult result = run_simulated(run);
    SCOPED_TRACE(testing::Message() << end.way << ": " << result);
    // `timeout` stands between, and dies of the same signal.
    EXPECT_EQ(result.process.exit_code, end.exit_code);
    EXPECT_EQ(result.process.signal, end.signal);
    EXPECT_EQ(result.line("sum "), "30");
    const auto stats = result.stats();
    ASSERT_TRUE(stats.is_object());
    EXPECT_EQ(stats["whole"], end.whole) << stats.dump(1);
    EXPECT_EQ(stats["devices"][0]["budget"], 24 * kMiB) << stats.dump(1);
    if (std::string(end.way) == "thread") {
      EXPECT_GE(stats["launches"].get<int>(), 30);
    } else {
      EXPECT_EQ(stats["launches"], 30) << stats.dump(1);
    }
    EXPECT_EQ(stats["dropped_events"], 0);
  }
}

// Before there was anything to write but who runs, and where.
TEST_P(Process, AProgramThatDiesAtOnceLeavesATraceAndNobodySaysThatItUsedNoCuda) {
  for (const char* way : {"early_abort", "early_exit"}) {
    const SimulatedResult result = run_simulated(probe_process({"ends", way}, mode_));
    SCOPED_TRACE(testing::Message() << way << ": " << result);
    const auto stats = result.stats();
    ASSERT_TRUE(stats.is_object());
    EXPECT_EQ(stats["whole"], false) << stats.dump(1);
    EXPECT_EQ(stats["devices"].size(), 1U) << stats.dump(1);
    const ProcessResult summary =
        run_on_simulated("run", {"--summary", "--mode", mode_, "--", GUEST_PROBE, "ends", way}, {});
    EXPECT_THAT(summary.err, HasSubstr(" summary (partial: tracing stopped at byte "));
    EXPECT_THAT(summary.err, testing::Not(HasSubstr("no CUDA call was seen")));
  }
}

TEST_P(Process, BadPlacesForATraceCostOneLineAndNothingElse) {
  for (const char* place : {"/dev/full", "/nonexistent/folder/t.swt", "/proc/t.swt"}) {
    SimulatedRun run = probe_process({"work", "5"}, mode_);
    run.environment["SPILLWAY_TRACE_PATH"] = place;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    EXPECT_EQ(result.process.out, "sum 30\n");
    EXPECT_EQ(lines(result.process.err, "tracing is off"), 1) << result;
    EXPECT_THAT(result.process.err, HasSubstr(place));
  }
}

TEST(Off, SaysThatCallsAreTracedWhereTheyAre) {
  SimulatedRun run = probe_process({"work", "1"}, "off");
  EXPECT_THAT(run_simulated(run).process.err, HasSubstr("mode off: nothing spills or moves; calls are traced\n"));
  run.environment["SPILLWAY_TRACE_PATH"] = "/nonexistent/folder/t.swt";
  EXPECT_THAT(run_simulated(run).process.err, HasSubstr("mode off: nothing spills or moves\n"));
}

// Who asked for a trace must be able to find it, or hear that there is none.
TEST_P(Process, WhereATraceIsOrWhyThereIsNoneIsSaidAtAllLevelsButOff) {
  for (const char* level : {"error", "off"}) {
    const Scratch folder;
    SimulatedRun run = probe_process({"forks_first"}, mode_);
    run.environment["SPILLWAY_LOG_LEVEL"] = level;
    run.environment["SPILLWAY_TRACE_PATH"] = (folder.path() / "same.swt").string();
    const int said = std::string(level) == "off" ? 0 : 1;
    const SimulatedResult two = run_simulated(run);
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "same.1.swt")) << two;
    EXPECT_EQ(lines(two.process.err, "the trace is " + (folder.path() / "same.1.swt").string() + ":"), said) << two;
    run.environment["SPILLWAY_TRACE_PATH"] = "/nonexistent/folder/t.swt";
    const SimulatedResult none = run_simulated(run);
    EXPECT_EQ(lines(none.process.err, "tracing is off"), 2 * said) << none;
  }
}

TEST_P(Process, EightAtOnceWithOneNameGiveEightTraces) {
  const Scratch folder;
  std::vector<SimulatedResult> results(8);
  std::vector<std::thread> threads;
  for (SimulatedResult& result : results) {
    threads.emplace_back([&] {
      SimulatedRun run = probe_process({"work", "3"}, mode_);
      run.environment["SPILLWAY_TRACE_PATH"] = (folder.path() / "same.swt").string();
      result = run_simulated(run);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int> processes;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const auto stats = nlohmann::json::parse(
        run_process({SPILLWAY_COMMAND, "stats", "--json", entry.path().string()}).out, nullptr, false);
    ASSERT_TRUE(stats.is_object()) << entry.path();
    EXPECT_EQ(stats["whole"], true) << entry.path();
    EXPECT_EQ(stats["launches"], 18);
    processes.insert(stats["pid"].get<int>());
  }
  EXPECT_EQ(processes.size(), 8U);
  for (const SimulatedResult& result : results) EXPECT_EQ(result.process.out, "sum 18\n") << result;
}

INSTANTIATE_TEST_SUITE_P(Manners, Process, testing::Values("demand", "adaptive"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace spillway::tests
