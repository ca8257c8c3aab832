// Telemetry from the preloaded library, on the simulated device and its CUPTI: what comes into the trace, whose CUPTI
// it is, and that the program is none the wiser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "tests/shim/end_to_end/telemetry_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using policy::TelemetryState;

// Every buffer is used by kernels of two sizes, in an order that repeats nowhere; where the buffer lives and how many
// threads there are fixes a simulated kernel's time. So a time at the wrong launch is a time that others of the shape
// do not have.
void expect_right_launches(const Told& told, std::size_t least_different) {
  std::map<std::uint32_t, std::set<std::int64_t>> by_shape;
  std::set<std::int64_t> different;
  for (const auto& [launch, time] : told.times) {
    ASSERT_LT(launch, told.launches.size());
    by_shape[told.launches[launch].shape].insert(time);
    different.insert(time);
  }
  for (const auto& [shape, times] : by_shape) EXPECT_EQ(times.size(), 1U) << "shape " << shape;
  EXPECT_GE(different.size(), least_different) << "this test shows nothing";
  EXPECT_EQ(told.twice, 0);
}

TEST(Telemetry, KernelTimesComeWithTheRightLaunch) {
  for (const char* scenario : {"run", "streams"}) {
    SimulatedRun run = telemetry_run({TELEMETRY_PROBE, scenario, "8000"});
    const SimulatedResult bare = run_simulated({run.command, "", "", run.memory, "", false, run.environment, 0, 30});
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.line("sum "), bare.line("sum ")) << result;
    EXPECT_EQ(result.line("error "), "0");
    const Told told = told_by(result);
    EXPECT_EQ(told.launches.size(), 8001U);
    EXPECT_GE(told.times.size(), kAWindow) << scenario << "\n" << result;
    // Resident or on the host, of two sizes.
    expect_right_launches(told, 4);
    EXPECT_EQ(told.states(TelemetryState::running), 1);
    EXPECT_THAT(told.notes, testing::ElementsAre(HasSubstr("sampled by CUPTI")));
  }
}

TEST(Telemetry, GraphLaunchesAreTimedAsOne) {
  const SimulatedResult result = run_simulated(telemetry_run({TELEMETRY_PROBE, "graphs", "4000"}));
  const Told told = told_by(result);
  std::ptrdiff_t graphs = 0;
  for (const auto& [launch, time] : told.times) graphs += told.launches[launch].shape == 0 ? 1 : 0;
  EXPECT_GT(graphs, 10) << result;
  EXPECT_GT(std::ssize(told.times), graphs);
  expect_right_launches(told, 3);
}

TEST(Telemetry, ASampleIsTheShareAskedFor) {
  const Told told = told_by(run_simulated(telemetry_run({TELEMETRY_PROBE, "run", "12000"}, "arrival", "10%")));
  EXPECT_GE(told.times.size(), kAWindow);
  // The clock's own test says how many exactly; here a busy machine may close a window late.
  EXPECT_LT(told.times.size(), 9000U);
  expect_right_launches(told, 2);
}

// Each switching misses some launches, so windows grow.
TEST(Telemetry, WhereAllIsAskedForLongStretchesAreTimed) {
  const SimulatedResult result = run_simulated(telemetry_run({TELEMETRY_PROBE, "run", "20000"}, "arrival", "100%"));
  const Told told = told_by(result);
  std::uint64_t longest = 0;
  std::uint64_t stretch = 0;
  std::uint64_t last = 0;
  for (const auto& [launch, time] : told.times) {
    stretch = launch == last + 1 ? stretch + 1 : 1;
    longest = std::max(longest, stretch);
    last = launch;
  }
  EXPECT_GE(longest, 4000U) << result;
  expect_right_launches(told, 2);
}

// Silent counters would hold every window open for 2 s (docs/driver_facts.md).
TEST(Telemetry, PagesAreCountedOnlyWhereMemoryMayMove) {
  for (const char* budget : {"", "20MiB"}) {
    SimulatedRun run = telemetry_run({TELEMETRY_PROBE, "run", "4000"}, "adaptive");
    run.budget = budget;
    run.memory = "1GiB";
    if (*budget == 0) run.environment.erase("SPILLWAY_PLAIN_SHARE");
    run.environment["SPILLWAY_LOG_LEVEL"] = "debug";
    const SimulatedResult result = run_simulated(run);
    EXPECT_THAT(result.process.err, HasSubstr("kernel times are sampled"));
    EXPECT_EQ(result.process.err.find("page traffic is counted") == std::string::npos, *budget == 0) << result;
  }
}

TEST(Telemetry, PageTrafficIsThatOfSpilledMemory) {
  const SimulatedResult result = run_simulated(telemetry_run({TELEMETRY_PROBE, "run", "4000"}, "demand"));
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  EXPECT_GT(stats["traffic"]["gpu_faults"], 10) << stats.dump(1);
  EXPECT_GT(stats["traffic"]["pages_in"]["bytes"], 20 * kMiB);
  EXPECT_GT(stats["traffic"]["pages_out"]["bytes"], 20 * kMiB);
  EXPECT_EQ(stats["telemetry"]["spilled_gpu_faults"], stats["traffic"]["gpu_faults"]);
  EXPECT_EQ(stats["telemetry"]["spilled_pages_in"], stats["traffic"]["pages_in"]);
  EXPECT_EQ(stats["telemetry"]["spilled_pages_out"], stats["traffic"]["pages_out"]);
}

TEST(Telemetry, MappedMemoryDoesNotFault) {
  const auto stats = run_simulated(telemetry_run({TELEMETRY_PROBE, "run", "4000"}, "arrival")).stats();
  EXPECT_EQ(stats["traffic"]["gpu_faults"], 0);
  EXPECT_GE(stats["telemetry"]["timed_launches"], kAWindow);
}

// What the program's own profiler counts is what it counts without us, to the record.
class CuptiOfTheProgram : public testing::TestWithParam<const char*> {};

TEST_P(CuptiOfTheProgram, IsCompleteAndNoneTheWiser) {
  SimulatedRun run = telemetry_run({CUPTI_PROBE, GetParam()});
  const SimulatedResult bare = run_simulated({run.command, "", "", run.memory, "", false, run.environment, 0, 60});
  run.seconds_limit = 60;
  const SimulatedResult with = run_simulated(run);
  ASSERT_EQ(bare.process.exit_code, 0) << bare;
  ASSERT_NE(bare.process.out, "") << bare;
  EXPECT_EQ(with.process.out, bare.process.out) << with.process.err;
  EXPECT_EQ(with.process.exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Telemetry, CuptiOfTheProgram,
                         testing::Values("profiler", "registers_once", "late", "subscriber", "beside", "forks"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Telemetry, TheProfilersSessionsAreLeftAloneAndTelemetryComesBack) {
  const SimulatedResult result = run_simulated(without_events(telemetry_run({CUPTI_PROBE, "profiler"})));
  EXPECT_THAT(result.process.out, HasSubstr("profiled 500\n"));
  const Told told = told_by(result);
  // 3,000 launches, then thrice a session of 500 and 3,000 more.
  ASSERT_EQ(told.launches.size(), 1U + 3000 + 500 + 501 + 502 + 9000) << result;
  const auto timed = [&](std::uint64_t first, std::uint64_t last) {
    return std::distance(told.times.lower_bound(first), told.times.upper_bound(last));
  };
  EXPECT_EQ(timed(3002, 3500), 0) << "within a session";
  EXPECT_EQ(timed(6502, 7001), 0);
  EXPECT_GT(timed(1, 3000), 0) << "before the first";
  EXPECT_GT(timed(3501, 6500), 0) << "after the first";
  EXPECT_GT(timed(10504, 13503), 0) << "after the last";
  expect_right_launches(told, 4);
  EXPECT_GE(told.states(TelemetryState::yielded), 1);
  EXPECT_GE(told.states(TelemetryState::running), 2);
  // Said once, and counted at the end.
  EXPECT_EQ(occurrences(result.process.err, "info: CUPTI is the program's now"), 1) << result;
  const auto more = told.states(TelemetryState::yielded) - 1;
  EXPECT_EQ(occurrences(result.process.err, std::to_string(more) + " more like \"CUPTI is the program's now"),
            more > 0 ? 1 : 0)
      << result;
}

TEST(Telemetry, ASubscriberAloneKeepsUsAwayUntilItGoes) {
  const SimulatedResult result = run_simulated(without_events(telemetry_run({CUPTI_PROBE, "subscriber"})));
  const Told told = told_by(result);
  EXPECT_EQ(told.times.lower_bound(3000), told.times.upper_bound(3000));
  EXPECT_TRUE(told.times.empty() || told.times.begin()->first > 3000) << result;
  EXPECT_GE(told.times.size(), kAWindow) << result;
  EXPECT_EQ(told.states(TelemetryState::yielded), 1);
}

// The folder's libcupti in place of the stand-in.
SimulatedRun with_cupti(const std::string& folder) {
  SimulatedRun run = telemetry_run({TELEMETRY_PROBE, "run", "3000"});
  run.environment["LD_LIBRARY_PATH"] = folder + ":" + SPILLWAY_SIMULATED_FOLDER;
  return run;
}

// Once, and then events stand in, where they may.
void expect_said_once(const SimulatedRun& run, const std::string& message, TelemetryState state) {
  for (const bool events : {false, true}) {
    const SimulatedResult result = run_simulated(events ? run : without_events(run));
    EXPECT_EQ(result.process.exit_code, 0) << result;
    EXPECT_EQ(result.line("sum "), "3000") << result;
    EXPECT_EQ(result.line("error "), "0");
    EXPECT_EQ(occurrences(result.process.err, message), 1) << result;
    const Told told = told_by(result);
    EXPECT_EQ(told.times.size() >= kSomeTimes, events) << told.times.size();
    EXPECT_EQ(told.times.empty(), !events);
    EXPECT_EQ(told.states(state), 1);
    EXPECT_EQ(told.states(TelemetryState::by_events), events ? 1 : 0);
    EXPECT_EQ(told.notes.size(), events ? 2U : 1U);
  }
}

TEST(Telemetry, WithoutCuptiOneNoteAndTheProgramIsFine) {
  const Scratch folder;
  // No library: the loader looks no further for that name.
  for (const char* name : {"libcupti.so.13", "libcupti.so.12"})
    std::ofstream(folder.path() / name) << "not an ELF file";
  expect_said_once(with_cupti(folder.path().string()), "was not found", TelemetryState::absent);
}

TEST(Telemetry, CuptiThatForbidsIsToldOnce) {
  expect_said_once(with_cupti(FORBIDDEN_CUPTI_FOLDER), "CUPTI refused (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)",
                   TelemetryState::refused);
}

TEST(Telemetry, AToolsCuptiIsLeftToIt) {
  expect_said_once(with_cupti(TAKEN_CUPTI_FOLDER), "CUPTI is a tool's now", TelemetryState::yielded);
}

TEST(Telemetry, SwitchedOffTheLibraryIsNeverOpened) {
  SimulatedRun run = telemetry_run({TELEMETRY_PROBE, "run", "3000"});
  EXPECT_EQ(run_simulated(run).line("figure: cupti "), "mapped");
  run.environment["SPILLWAY_CUPTI"] = "off";
  EXPECT_EQ(run_simulated(run).line("figure: cupti "), "not mapped");
  const SimulatedResult off = run_simulated(without_events(run));
  EXPECT_EQ(off.line("figure: cupti "), "not mapped");
  EXPECT_TRUE(told_by(off).changes.empty());
  EXPECT_EQ(off.calls("cuEventCreate"), 0U);
  run.environment.erase("SPILLWAY_CUPTI");
  run.environment["SPILLWAY_TELEMETRY_SAMPLE"] = "0%";
  EXPECT_EQ(run_simulated(run).line("figure: cupti "), "not mapped");
}

TEST(Telemetry, WhereNothingSpillsAndNothingIsTracedNobodyNeedsIt) {
  SimulatedRun run = telemetry_run({TELEMETRY_PROBE, "run", "3000"}, "adaptive");
  run.traced = false;
  EXPECT_EQ(run_simulated(run).line("figure: cupti "), "mapped") << "it spills";
  run.budget = "";
  run.environment.erase("SPILLWAY_PLAIN_SHARE");
  run.environment["SPILLWAY_BACKING"] = "device";
  EXPECT_EQ(run_simulated(run).line("figure: cupti "), "not mapped");
}

TEST(Telemetry, AShortProgramNeverMeetsIt) {
  const SimulatedResult result = run_simulated(telemetry_run({TELEMETRY_PROBE, "run", "100"}));
  EXPECT_EQ(result.line("figure: cupti "), "not mapped");
  EXPECT_THAT(result.process.err, Not(HasSubstr("CUPTI")));
}

TEST(Telemetry, ChildrenOfAForkHaveNone) {
  const SimulatedResult result = run_simulated(telemetry_run({TELEMETRY_PROBE, "forks", "6000"}));
  EXPECT_EQ(result.line("children "), "20") << result;
  EXPECT_EQ(result.line("sum "), "6000");
  const Told told = told_by(result);  // one trace
  EXPECT_GE(told.times.size(), kAWindow) << result;
  expect_right_launches(told, 2);
}

TEST(Telemetry, ExitWithRecordsInFlightIsClean) {
  for (int i = 0; i < 20; ++i) {
    const SimulatedResult result =
        run_simulated(telemetry_run({TELEMETRY_PROBE, "exits", std::to_string(260 + 30 * i)}));
    ASSERT_EQ(result.process.exit_code, 6) << result;
    ASSERT_EQ(result.process.signal, 0);
    const auto stats = result.stats();
    ASSERT_TRUE(stats.is_object()) << result;
    EXPECT_EQ(stats["whole"], true);
    expect_right_launches(told_by(result), 0);
  }
}

}  // namespace
}  // namespace spillway::tests
