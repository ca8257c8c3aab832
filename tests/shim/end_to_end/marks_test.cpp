// Marks of the device's progress, in whole programs on the simulated device whose memory is streamed ahead of use: each
// mark is answered once and in order, and the program is the same with them, without, and when the driver refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/trace/trace_reader.hpp"
#include "tests/shim/end_to_end/telemetry_run.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kSomeMarks = 12;

struct Marks {
  std::vector<std::uint64_t> asked;
  std::vector<policy::MarkPassed> answers;

  [[nodiscard]] std::size_t refused() const {
    return static_cast<std::size_t>(
        std::count_if(answers.begin(), answers.end(), [](const auto& answer) { return !answer.result.ok(); }));
  }
};

// The answers are those to the first marks, in order; to the last ones none may have come by the end.
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
          const bool mark = std::holds_alternative<policy::MarkProgress>(record.decision.body);
          if (mark) marks.asked.push_back(record.decision.id.value);
        } else if (const auto* passed = std::get_if<policy::MarkPassed>(&record.event.body)) {
          ASSERT_LT(marks.answers.size(), marks.asked.size()) << "nobody has asked";
          EXPECT_EQ(passed->decision.value, marks.asked[marks.answers.size()]);
          marks.answers.push_back(*passed);
        }
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

TEST(Marks, EachIsAnsweredOnceAndInOrder) {
  const SimulatedRun run = turns("run", 60);
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  const Marks marks = marks_in(result);
  EXPECT_GE(marks.answers.size(), kSomeMarks) << result;
  EXPECT_LE(marks.asked.size() - marks.answers.size(), 16U) << "more than an iteration asks for";
  EXPECT_EQ(marks.refused(), 0U);
  EXPECT_LE(result.calls("cuEventRecord"), marks.asked.size());
}

TEST(Marks, WhereNoneIsWantedThereIsNoEvent) {
  SimulatedRun run = turns("run", 60);
  run.environment["SPILLWAY_ITERATION_LOOKAHEAD"] = "0";
  const SimulatedResult result = run_simulated(run);
  EXPECT_TRUE(marks_in(result).asked.empty());
  EXPECT_EQ(event_calls(result), 0U);
}

TEST(Marks, CapturesHoldWhatTheProgramPutIntoThem) {
  const SimulatedRun run = turns("captures", 60);
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  EXPECT_EQ(result.line("nodes: "), "180");
  EXPECT_EQ(result.line("refused: "), "0");
  const Marks marks = marks_in(result);
  EXPECT_GE(marks.answers.size(), kSomeMarks) << result;
  EXPECT_EQ(marks.refused(), 0U);
}

TEST(Marks, ContextsEndWithThemOut) {
  const SimulatedRun run = turns("contexts", 40);
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  const Marks marks = marks_in(result);
  EXPECT_GE(marks.answers.size(), kSomeMarks) << result;
  EXPECT_EQ(marks.refused(), 0U);
}

TEST(Marks, ForksAndExitsAreClean) {
  const SimulatedRun run = turns("forks", 60);
  const SimulatedResult forks = run_simulated(run);
  expect_same_program(run, forks);
  EXPECT_GE(marks_in(forks).answers.size(), kSomeMarks);
  for (int i = 0; i < 5; ++i) {
    const SimulatedResult result = run_simulated(turns("exits", 40 + i));
    ASSERT_EQ(result.process.exit_code, 6) << result;
    ASSERT_EQ(result.process.signal, 0);
    EXPECT_EQ(result.stats()["whole"], true);
    EXPECT_THAT(result.process.err, Not(HasSubstr("how far")));
    EXPECT_EQ(marks_in(result).refused(), 0U);
  }
}

// Every mark that was out gets the code, in order, and no more are asked for.
TEST(Marks, ARefusalEndsThemForGood) {
  SimulatedRun run = turns("run", 40);
  for (const char* fault : {"cuEventCreate:1:2", "cuEventCreate:30:2", "cuEventRecord:1:999", "cuEventRecord:4:999",
                            "cuEventQuery:1:999", "cuEventQuery:7:999"}) {
    run.faults = fault;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    EXPECT_EQ(result.line("sum "), "32000") << fault;
    EXPECT_EQ(result.line("error "), "0") << fault;
    EXPECT_EQ(result.process.out.find("launch"), std::string::npos) << result;
    EXPECT_EQ(occurrences(result.process.err, "do not tell how far the device is"), 1) << fault << "\n" << result;
    const Marks marks = marks_in(result);
    EXPECT_GE(marks.refused(), 1U) << fault << "\n" << result;
    EXPECT_EQ(marks.answers.size(), marks.asked.size());
    EXPECT_LE(result.calls("cuEventRecord"), 20U) << fault;
  }
}

}  // namespace
}  // namespace spillway::tests
