// Marks of the device's progress, in whole programs on the simulated device whose memory is streamed ahead of use: what
// is told was launched, is told once and in order, and the program is the same with marks, without, and when the driver
// refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policy/trace/trace_reader.hpp"
#include "tests/shim/end_to_end/telemetry_run.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kSomeMarks = 12;
constexpr std::uint64_t kIteration = 800;  // launches of the probe

struct Passed {
  std::uint64_t launch = 0;
  std::uint64_t known = 0;  // launches that policy knew of when it was told
};

struct Marks {
  std::vector<std::uint64_t> rates;  // as asked for
  std::vector<Passed> passed;
  std::size_t refused = 0;
  std::uint64_t launches = 0;

  // No two marks are closer, but the first.
  [[nodiscard]] std::uint64_t most() const {
    std::uint64_t least = launches + 1;
    for (const std::uint64_t rate : rates) least = rate == 0 ? least : std::min(least, rate);
    return launches / least + 1;
  }
};

Marks marks_in(const SimulatedResult& result) {
  Marks marks;
  if (result.traces().size() != 1) {
    ADD_FAILURE() << "no trace, or several\n" << result;
    return marks;
  }
  const auto problem = tools::read_trace(
      result.traces().front().string(),
      [&](const policy::trace::Record& record) {
        if (record.kind == policy::trace::RecordKind::decision) {
          const auto* asked = std::get_if<policy::MarkProgress>(&record.decision.body);
          if (asked != nullptr) marks.rates.push_back(asked->every);
          return;
        }
        const policy::EventBody& event = record.event.body;
        const bool launched =
            std::holds_alternative<policy::Launched>(event) || std::holds_alternative<policy::GraphLaunched>(event);
        marks.launches += launched ? 1U : 0U;
        const auto* passed = std::get_if<policy::MarkPassed>(&event);
        if (passed == nullptr) return;
        EXPECT_FALSE(marks.rates.empty()) << "nobody has asked";
        if (!passed->result.ok()) {
          ++marks.refused;
          EXPECT_FALSE(passed->launch);
          return;
        }
        EXPECT_EQ(marks.refused, 0U) << "after a failure nothing is told";
        EXPECT_LE(passed->launch.value, marks.launches) << "not launched yet";
        EXPECT_GT(passed->launch.value, marks.passed.empty() ? 0 : marks.passed.back().launch);
        marks.passed.push_back({passed->launch.value, marks.launches});
      },
      [](const policy::trace::TraceReader&) {});
  EXPECT_FALSE(problem) << *problem;
  return marks;
}

SimulatedRun turns(const std::string& scenario, int iterations) {
  SimulatedRun run =
      without_cupti(without_events(telemetry_run({TURNS_PROBE, scenario, std::to_string(iterations)}, "adaptive")));
  run.budget = "36MiB";
  run.memory = "128MiB";
  run.seconds_limit = 60;
  return run;
}

std::uint64_t event_calls(const SimulatedResult& result) {
  return result.calls("cuEventCreate") + result.calls("cuEventRecord") + result.calls("cuEventQuery");
}

TEST(Marks, EachIsToldOnceAndInOrder) {
  const SimulatedRun run = turns("run", 60);
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  const Marks marks = marks_in(result);
  EXPECT_GE(marks.passed.size(), kSomeMarks) << result;
  EXPECT_EQ(marks.refused, 0U);
  EXPECT_LE(marks.passed.size(), result.calls("cuEventRecord"));
  EXPECT_LE(result.calls("cuEventRecord"), marks.most());
}

// Of a program that enqueues an iteration and then waits for it, while it waits.
TEST(Marks, TheMiddleOfAnIterationIsHeardOf) {
  const SimulatedRun run = turns("at_once", 60);
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  const Marks marks = marks_in(result);
  EXPECT_EQ(marks.refused, 0U);
  std::map<std::uint64_t, int> heard;  // by iteration
  for (const Passed& passed : marks.passed) {
    const bool waiting = passed.known % kIteration == 0 && passed.known - passed.launch < kIteration;
    heard[passed.known] += waiting && passed.launch < passed.known ? 1 : 0;
  }
  const auto well_heard =
      std::count_if(heard.begin(), heard.end(), [](const auto& iteration) { return iteration.second >= 3; });
  EXPECT_GE(well_heard, 5) << result;
}

TEST(Marks, WhereNoneIsWantedThereIsNoEvent) {
  SimulatedRun run = turns("run", 60);
  run.environment["SPILLWAY_ITERATION_LOOKAHEAD"] = "0";
  const SimulatedResult result = run_simulated(run);
  EXPECT_TRUE(marks_in(result).rates.empty());
  EXPECT_EQ(event_calls(result), 0U);
}

TEST(Marks, CapturesHoldWhatTheProgramPutIntoThem) {
  const SimulatedRun run = turns("captures", 60);
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  EXPECT_EQ(result.line("nodes: "), "180");
  EXPECT_EQ(result.line("refused: "), "0");
  const Marks marks = marks_in(result);
  EXPECT_GE(marks.passed.size(), kSomeMarks) << result;
  EXPECT_EQ(marks.refused, 0U);
}

TEST(Marks, ContextsEndWithThemOut) {
  const SimulatedRun run = turns("contexts", 40);
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  const Marks marks = marks_in(result);
  EXPECT_GE(marks.passed.size(), kSomeMarks) << result;
  EXPECT_EQ(marks.refused, 0U);
}

TEST(Marks, ForksAndExitsAreClean) {
  const SimulatedRun run = turns("forks", 60);
  const SimulatedResult forks = run_simulated(run);
  expect_same_program(run, forks);
  EXPECT_GE(marks_in(forks).passed.size(), kSomeMarks);
  for (int i = 0; i < 5; ++i) {
    const SimulatedResult result = run_simulated(turns("exits", 40 + i));
    ASSERT_EQ(result.process.exit_code, 6) << result;
    ASSERT_EQ(result.process.signal, 0);
    EXPECT_EQ(result.stats()["whole"], true);
    EXPECT_THAT(result.process.err, Not(HasSubstr("how far")));
    EXPECT_EQ(marks_in(result).refused, 0U);
  }
}

// The moves that are on their way when the process ends are the last.
TEST(Marks, AProcessEndsAmidTurns) {
  int refused = 0;
  for (int i = 0; i < 8; ++i) {
    SimulatedRun run = turns("ends", 200);
    run.faults = "cuMemPrefetchAsync_v2:*:delay=" + std::to_string(1 + i % 3) + "ms";
    const SimulatedResult result = run_simulated(run);
    ASSERT_EQ(result.process.signal, 0) << result;
    ASSERT_EQ(result.process.exit_code, 7) << result;
    EXPECT_THAT(result.process.out, HasSubstr("turning\n"));
    EXPECT_EQ(result.stats()["whole"], true);
    refused += result.stats()["traffic"]["moves_cancelled"] > 0 ? 1 : 0;
  }
  EXPECT_GT(refused, 0) << "this test shows nothing";
}

// A call of the policy thread that does not come back: the trace is whole all the same.
TEST(Marks, WhatHangsInTheDriverHoldsNoExitUp) {
  const std::string symbol = "cuEventQuery";
  for (const std::uint64_t call : {1U, 20U}) {
    SimulatedRun run = turns("exits", 60);
    run.faults = symbol + ":" + std::to_string(call) + ":delay=600000ms";
    const SimulatedResult result = run_simulated(run);
    ASSERT_FALSE(result.hung()) << result;
    EXPECT_EQ(result.process.exit_code, 6) << result;
    EXPECT_EQ(result.calls(symbol), call) << "none, or not the last";
    EXPECT_EQ(result.stats()["whole"], true);
  }
}

// Moves end while the program launches: what they tell does not stand in for the launches' own times.
TEST(Marks, LaunchesHaveTheirOwnTimes) {
  SimulatedRun run = turns("run", 40);
  run.faults = "cuMemPrefetchAsync_v2:*:delay=1ms";
  const SimulatedResult result = run_simulated(run);
  ASSERT_EQ(result.process.exit_code, 0) << result;
  ASSERT_EQ(result.traces().size(), 1U) << result;
  std::uint64_t launches = 0;
  std::uint64_t at_the_latest = 0;  // that have the time of the one before
  std::uint64_t moves = 0;
  policy::Nanoseconds latest{-1};
  const auto problem = tools::read_trace(
      result.traces().front().string(),
      [&](const policy::trace::Record& record) {
        if (record.kind == policy::trace::RecordKind::decision) return;
        moves += std::holds_alternative<policy::MoveFinished>(record.event.body) ? 1U : 0U;
        if (!std::holds_alternative<policy::Launched>(record.event.body)) return;
        ++launches;
        at_the_latest += std::exchange(latest, record.event.time) == record.event.time ? 1U : 0U;
      },
      [](const policy::trace::TraceReader&) {});
  EXPECT_FALSE(problem);
  EXPECT_GT(moves, 100U) << "this test shows nothing";
  EXPECT_GT(launches, 30 * kIteration);
  // One that is under way at such a moment is told later, as of that moment.
  EXPECT_LT(at_the_latest, launches / 500);
}

// The code is told once a try, and the driver is not asked again.
TEST(Marks, ARefusalEndsThemForGood) {
  struct Fault {
    std::string symbol;
    std::uint64_t at;
    std::string code;
  };
  SimulatedRun run = turns("run", 40);
  for (const auto& [symbol, at, code] :
       {Fault{"cuEventCreate", 1, "2"}, Fault{"cuEventCreate", 30, "2"}, Fault{"cuEventRecord", 1, "999"},
        Fault{"cuEventRecord", 4, "999"}, Fault{"cuEventQuery", 1, "999"}, Fault{"cuEventQuery", 7, "999"}}) {
    run.faults = symbol + ":" + std::to_string(at) + ":" + code;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    EXPECT_EQ(result.line("sum "), "32000") << run.faults;
    EXPECT_EQ(result.line("error "), "0") << run.faults;
    EXPECT_EQ(result.process.out.find("launch"), std::string::npos) << result;
    EXPECT_EQ(occurrences(result.process.err, "do not tell how far the device is"), 1) << run.faults << "\n" << result;
    const Marks marks = marks_in(result);
    EXPECT_GE(marks.refused, 1U) << run.faults << "\n" << result;
    EXPECT_LE(marks.refused, marks.rates.size());
    EXPECT_EQ(result.calls(symbol), at) << run.faults;
  }
}

}  // namespace
}  // namespace spillway::tests
