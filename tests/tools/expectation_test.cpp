// What plan expects: the model's figure, corrected by what the recorded run took.
#include "tools/expectation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"

namespace spillway::tools {
namespace {

using policy::Nanoseconds;
using ::testing::HasSubstr;

// Launches 10 ms apart; each fourth one waits for 100 ms more.
TraceEvents paced(std::uint64_t launches) {
  TraceEvents trace;
  std::int64_t now = 0;
  for (std::uint64_t i = 0; i < launches; ++i) {
    now += i % 4 == 0 ? 110'000'000 : 10'000'000;
    trace.events.push_back({Nanoseconds(now), policy::Launched{{1}, {}}});
    trace.events.push_back({Nanoseconds(now), policy::Copied{}});
  }
  trace.launches = launches;
  trace.iterations.whole = launches / 4;
  return trace;
}

NamedReplay replayed(std::uint64_t launches, std::uint64_t iteration, double seconds, double stall) {
  NamedReplay replay;
  replay.result.iteration = iteration;
  replay.result.measured.launches = launches;
  replay.result.measured.seconds = seconds;
  replay.result.measured.model.stall_seconds = stall;
  replay.result.measured.model.compute_seconds = seconds - stall;
  replay.result.measured.model.remote_read = 4096;
  replay.result.bounds.seconds = seconds / 2;
  replay.result.bounds.compute_seconds = std::min(seconds / 2, seconds - stall);
  return replay;
}

TEST(Expectation, TheRecordingsClockIsReadByIterations) {
  EXPECT_NEAR(recorded_seconds(paced(40), 20, 4), 0.14, 1e-9);
  EXPECT_NEAR(recorded_seconds(paced(40), 0, 8), 0.28, 1e-9);
  EXPECT_EQ(recorded_seconds(paced(40), 35, 4), 0) << "one unit is no median";
  EXPECT_EQ(recorded_seconds(paced(40), 0, 0), 0);
  EXPECT_EQ(recorded_seconds({}, 0, 4), 0);
}

// Whatever the recording took, and however it is said to have waited: what is modelled like it takes as long.
TEST(Expectation, WhatIsModelledLikeTheRecordingTakesAsLong) {
  for (const double stall : {0.0, 0.5, 0.9, 1.1, 2.0, 5.0, 9.0, 9.9}) {
    const Modelled then{10, stall};
    for (const double times : {0.5, 0.9, 1.0, 1.1, 2.0, 19.0, 21.0, 300.0}) {
      const double recorded = std::max(10 * times, 0.5 * then.rest());
      EXPECT_NEAR(corrected(then, recorded, then), recorded, 1e-9) << stall << " of 10 waiting, took " << recorded;
    }
  }
}

TEST(Expectation, WaitingIsCorrectedWhereTheRecordingWaited) {
  // Said to be 10 of computing and 40 of waiting; it took 30, so waits are half as long.
  EXPECT_NEAR(corrected({90, 80}, 30, {50, 40}), 10 + 40, 1e-9);
}

TEST(Expectation, WhatWaitingCannotHaveTakenIsTheProgramsOwnTime) {
  // 10 of computing and 40 of waiting, which is 800 at most: 190 of the 1,000 are neither.
  EXPECT_NEAR(corrected({90, 80}, 1000, {50, 40}), 10 + 1600 + 190, 1e-9);
}

TEST(Expectation, ComputingIsCorrectedWhereNothingWaited) {
  EXPECT_NEAR(corrected({60, 50}, 12, {10, 0}), 1.2 * 10 + 50, 1e-9);
}

TEST(Expectation, BothAreCorrectedWhereTheRecordingBeatItsComputing) {
  EXPECT_NEAR(corrected({100, 50}, 8, {20, 10}), 100 * 0.4, 1e-9);
}

TEST(Expectation, FiguresAreOfAnIteration) {
  // 20 launches are five iterations, of 0.2 s by the model, 0.1 of it waiting; recorded, an iteration took 0.14 s.
  const Expectation expected = expect_of(paced(40), replayed(20, 4, 1, 0.5), replayed(20, 4, 1, 0.5));
  EXPECT_EQ(expected.units_measured, 5);
  EXPECT_NEAR(expected.model_seconds, 0.2, 1e-9);
  EXPECT_NEAR(expected.recorded_seconds, 0.14, 1e-9);
  EXPECT_NEAR(expected.seconds, 0.14, 1e-9);
  EXPECT_NEAR(expected.least_seconds, 0.1, 1e-9);
  EXPECT_THAT(expectation_text(expected), HasSubstr("140.00 ms an iteration of 4 launches"));
  EXPECT_EQ(expectation_json(expected).at("iteration_launches"), 4);
}

TEST(Expectation, AClockThatRanAheadCorrectsNothing) {
  // An iteration of 0.14 s by the clock, of which the model says that it computes for 0.4.
  const Expectation expected = expect_of(paced(40), replayed(20, 4, 2.5, 0.5), replayed(20, 4, 2.5, 0.5));
  EXPECT_NEAR(expected.seconds, 0.5, 1e-9);
  EXPECT_NEAR(expected.recorded_seconds, 0.14, 1e-9);
  EXPECT_THAT(expectation_text(expected), HasSubstr("By the model alone: the recorded run did not wait"));
  EXPECT_EQ(expectation_json(expected).at("corrected"), "clock_ran_ahead");
}

// A queue has an end: what went on for many times that was paced by the device.
TEST(Expectation, AClockCannotRunAheadOfManyLaunches) {
  const Expectation expected = expect_of(paced(10000), replayed(9000, 4, 1125, 0.5), replayed(9000, 4, 1125, 0.5));
  EXPECT_NEAR(expected.recorded_seconds, 0.14, 1e-9);
  EXPECT_NEAR(expected.seconds, 0.14, 1e-9);
  EXPECT_EQ(expectation_json(expected).at("corrected"), "by_the_recording");
  TraceEvents graphs = paced(10000);
  graphs.events.push_back({Nanoseconds(), policy::GraphLaunched{{1}, {}}});
  const Expectation unknown = expect_of(graphs, replayed(9000, 4, 1125, 0.5), replayed(9000, 4, 1125, 0.5));
  EXPECT_EQ(expectation_json(unknown).at("corrected"), "clock_ran_ahead");
}

TEST(Expectation, ASimulatedDevicesClockCorrectsNothing) {
  TraceEvents trace = paced(40);
  trace.simulated = true;
  const Expectation expected = expect_of(trace, replayed(20, 4, 1, 0.5), replayed(20, 4, 1, 0.5));
  EXPECT_NEAR(expected.seconds, 0.2, 1e-9);
  EXPECT_THAT(expectation_text(expected), HasSubstr("By the model alone: the trace is of a simulated device"));
  EXPECT_EQ(expectation_json(expected).at("corrected"), "not_a_gpu");
}

TEST(Expectation, ARecordingTooShortToBeTimedCorrectsNothing) {
  const Expectation expected = expect_of(paced(8), replayed(4, 4, 1, 0.5), replayed(4, 4, 1, 0.5));
  EXPECT_NEAR(expected.seconds, 1, 1e-9);
  EXPECT_EQ(expectation_json(expected).at("corrected"), "not_timed");
}

TEST(Expectation, WhereNothingCrossesThereIsNoBetterPlacementToSpeakOf) {
  NamedReplay replay = replayed(20, 4, 1, 0);
  EXPECT_THAT(expectation_text(expect_of(paced(40), replay, replay)), HasSubstr("no placement can do better"));
  replay.result.measured.model.remote_read = 0;
  const std::string text = expectation_text(expect_of(paced(40), replay, replay));
  EXPECT_THAT(text,
              HasSubstr("140.00 ms an iteration of 4 launches, nothing over the link. The model says 200.00 ms, "
                        "before it is corrected by the recorded run, which took 140.00 ms where it says 200.00 ms."));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("no placement")));
}

// A recording that took half of what the model says: what no placement can beat is corrected with it.
TEST(Expectation, TheBoundIsNeverAboveWhatIsExpected) {
  NamedReplay replay = replayed(20, 4, 1.4, 0.2);
  replay.result.bounds.seconds = 1.3;
  replay.result.bounds.compute_seconds = 1.2;
  const Expectation expected = expect_of(paced(40), replay, replay);
  EXPECT_NEAR(expected.seconds, 0.14, 1e-9);
  EXPECT_NEAR(expected.least_model_seconds, 0.26, 1e-9);
  EXPECT_NEAR(expected.least_seconds, 0.13, 1e-9);
  EXPECT_THAT(expectation_text(expected), HasSubstr("no placement can do better than 130.00 ms"));
  replay.result.bounds.seconds = 2;
  EXPECT_LE(expect_of(paced(40), replay, replay).least_seconds, expected.seconds);
}

TEST(Expectation, WithoutAnIterationTheyAreOfALaunch) {
  const Expectation expected = expect_of(paced(2000), replayed(1000, 0, 10, 0), replayed(1000, 0, 10, 0));
  EXPECT_NEAR(expected.model_seconds, 0.01, 1e-9);
  EXPECT_NEAR(expected.recorded_seconds, 0.035, 1e-9);
  EXPECT_NEAR(expected.seconds, 0.035, 1e-9);
  EXPECT_THAT(expectation_text(expected), HasSubstr("a launch, for no iteration was found"));
}

// Of a trace that is cut, say: the policy went by two launches that looked alike.
TEST(Expectation, APeriodThatStatsDoesNotCountIsNoIteration) {
  TraceEvents trace = paced(2000);
  trace.iterations = {};
  const Expectation expected = expect_of(trace, replayed(1000, 2, 10, 0), replayed(1000, 2, 10, 0));
  EXPECT_NEAR(expected.model_seconds, 0.01, 1e-9);
  EXPECT_NEAR(expected.recorded_seconds, 0.035, 1e-9) << "by as many launches at a time as without a period";
  EXPECT_THAT(expectation_text(expected), HasSubstr("a launch, for no iteration was found"));
  EXPECT_EQ(expectation_json(expected).at("iteration_launches"), 0);
  EXPECT_EQ(expectation_json(expected).at("figures_of"), "launch");
}

TEST(Expectation, WhatDoesNotFitIsSaid) {
  NamedReplay replay = replayed(20, 4, 1, 0.5);
  replay.result.refused = 1;
  EXPECT_THAT(expectation_text(expect_of(paced(40), replay, replay)), HasSubstr("does not fit"));
}

TEST(Expectation, NothingMeasuredIsNothingExpected) { EXPECT_EQ(expect_of({}, {}, {}).seconds, 0); }

class PlanCommandTest : public TraceCommandTest {
 protected:
  const std::string trace_ = GOLDEN_TRACES "/train_adam.swt";
};

TEST_F(PlanCommandTest, JsonAloneIsWhatToExpectAndNoPolicy) {
  const auto result = spillway({"plan", trace_, "--device-budget", "1030MiB", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("iteration_launches"), 63);
  EXPECT_EQ(json.at("budget_bytes"), 1030 << 20);
  // Under the budget that it was recorded under, the recording is what is expected, less what the rules save.
  const double recorded = json.at("recorded_seconds");
  EXPECT_LE(json.at("seconds"), 1.01 * recorded);
  EXPECT_GT(json.at("seconds"), 0.8 * recorded);
  EXPECT_LE(json.at("least_seconds"), json.at("seconds"));
}

TEST_F(PlanCommandTest, APolicyFileComesWithALineAboutIt) {
  const auto result = spillway({"plan", trace_, "--device-budget", "1500MiB", "-o", "plan.toml"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith("Expected with a budget of 1.5 GiB: "));
  EXPECT_THAT(result.out, HasSubstr("before it is corrected by the recorded run, which took "));
  const std::string line = result.out.substr(0, result.out.find('\n'));
  EXPECT_THAT(text("plan.toml"), HasSubstr("# " + line + "\n"));
  EXPECT_THAT(result.out.substr(line.size()), ::testing::StartsWith("\nplan.toml: ")) << "and one of what was written";
  const auto with_json = spillway({"plan", trace_, "--device-budget", "1500MiB", "-o", "plan.toml", "--json"});
  EXPECT_LT(nlohmann::json::parse(with_json.out).at("seconds"), 0.052) << "more memory, less time";
}

// `replay --policy` of the file is the model's figure of the plan.
TEST_F(PlanCommandTest, WhatIsExpectedIsOfTheFileThatIsWritten) {
  const auto result = spillway({"plan", trace_, "--device-budget", "400MiB", "-o", "plan.toml", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto plan = nlohmann::json::parse(result.out);
  const auto seconds = [&](const std::string& policy) {
    const auto again = spillway({"replay", trace_, "--policy", policy, "--device-budget", "400MiB", "--json"});
    EXPECT_EQ(again.exit_code, 0) << again.err;
    return nlohmann::json::parse(again.out).at("replays").at(0).at("measured").at("seconds").get<double>();
  };
  const double expected = plan.at("model_seconds").get<double>() * plan.at("measured").get<double>();
  EXPECT_NEAR(expected, seconds("plan.toml"), 1e-6);
  EXPECT_GT(std::abs(expected - seconds("adaptive")), 1e-5) << "the rules change nothing here, so this shows nothing";
}

// With a MiB less something is refused, with this nothing.
TEST_F(PlanCommandTest, TheLeastBudgetIsNamedWhereTheOneAskedForIsTooSmall) {
  const std::string trace = GOLDEN_TRACES "/train_adam.swt";
  const auto small = spillway({"plan", trace, "--device-budget", "64MiB", "-o", "plan.toml", "--json"});
  EXPECT_EQ(small.exit_code, 0);
  const auto expected = nlohmann::json::parse(small.out);
  EXPECT_EQ(expected["fits"], false);
  ASSERT_TRUE(expected.contains("least_budget_bytes") && expected["least_budget_bytes"].is_number()) << small.out;
  const std::uint64_t least = expected["least_budget_bytes"].get<std::uint64_t>() >> 20U;
  const std::string text_of_least = std::to_string(least) + "MiB";
  EXPECT_EQ(small.err,
            "spillway: --device-budget: \"64MiB\" is too small: 41 allocations are refused, so the program would end: "
            "out of memory; write at least " +
                text_of_least + "\n");
  EXPECT_THAT(text("plan.toml"),
              HasSubstr("allocations are refused; the least budget that would do is " + text_of_least));
  const auto with = [&](std::uint64_t mebibytes) {
    return spillway({"replay", trace, "--device-budget", std::to_string(mebibytes) + "MiB"}).out;
  };
  EXPECT_THAT(with(least), ::testing::Not(HasSubstr("refused, so the program would end")));
  EXPECT_THAT(with(least - 1),
              HasSubstr("so the program would end: out of memory; take " + text_of_least + " at least\n"));
  const auto enough = spillway({"plan", trace, "--device-budget", text_of_least, "-o", "enough.toml", "--json"});
  EXPECT_EQ(enough.err, "");
  EXPECT_EQ(nlohmann::json::parse(enough.out)["fits"], true);
  EXPECT_TRUE(nlohmann::json::parse(enough.out).at("least_budget_bytes").is_null());
}

// Beyond what was free on the recorded card nothing is known.
TEST_F(PlanCommandTest, NoBudgetIsNamedThatTheRecordedCardDidNotHave) {
  tests::TraceMaker maker({});
  maker.event(policy::DeviceSeen{{0}, {}, policy::Bytes(64U << 20U), policy::Bytes(64U << 20U), true, "card"});
  for (std::uint32_t id = 1; id <= 80; ++id)
    maker.allocate(id, policy::Bytes(1U << 20U), policy::Backing::device,
                   {0x7f0000000000ULL + id * std::uint64_t{4 << 20}});
  maker.event(policy::FunctionSeen{{1}, "f"});
  maker.event(policy::LaunchShapeSeen{{1}, {1}, 32, {}});
  for (int i = 0; i < 4; ++i) maker.launch(1);
  put("run.swt", maker.finish());
  const auto said = spillway({"plan", "run.swt", "--device-budget", "32MiB", "-o", "plan.toml"});
  EXPECT_THAT(said.err, HasSubstr("so the program would end: out of memory; write more\n"));
  EXPECT_THAT(said.out, HasSubstr("It does not fit: allocations are refused. "));
  EXPECT_THAT(spillway({"replay", "run.swt", "--device-budget", "32MiB"}).out, HasSubstr("; take a larger budget\n"));
}

TEST_F(PlanCommandTest, NeitherTheTraceNorAFileOfSomeoneElseIsReplaced) {
  std::filesystem::copy_file(trace_, folder_ / "run.swt");
  const std::string before = text("run.swt");
  for (const char* name : {"run.swt", "./run.swt"}) {
    const auto result = spillway({"plan", "run.swt", "--device-budget", "1030MiB", "-o", name});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("is the trace itself; name another file"));
  }
  EXPECT_EQ(text("run.swt"), before);
  std::ofstream(folder_ / "mine.toml") << "[memory]\ndevice_budget = \"8GiB\"\n";
  const std::string mine = text("mine.toml");
  const auto refused = spillway({"plan", "run.swt", "--device-budget", "1030MiB", "-o", "mine.toml"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("mine.toml: exists, and was not written by spillway plan; name another file"));
  EXPECT_EQ(text("mine.toml"), mine);
  for (const char* budget : {"1030MiB", "1500MiB"}) {
    EXPECT_EQ(spillway({"plan", "run.swt", "--device-budget", budget, "-o", "plan.toml"}).exit_code, 0);
  }
  EXPECT_THAT(text("plan.toml"), HasSubstr("1500MiB"));
}

}  // namespace
}  // namespace spillway::tools
