// Kernel times by the driver's events, from the preloaded library on the simulated device: in place of CUPTI where it
// is switched off or the program's own, and gone for good once the driver refuses one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/shim/end_to_end/telemetry_run.hpp"

namespace spillway::tests {
namespace {

using policy::TelemetryState;
using ::testing::HasSubstr;
using ::testing::Not;

// Shortest time of each shape.
std::map<std::uint32_t, std::int64_t> shortest(const Told& told) {
  std::map<std::uint32_t, std::int64_t> times;
  for (const auto& [launch, time] : told.times) {
    const auto [entry, fresh] = times.try_emplace(told.launches[launch].shape, time);
    if (!fresh) entry->second = std::min(entry->second, time);
  }
  return times;
}

// A simulated launch takes 4 us until it begins, and a call of the program 1 us.
constexpr std::int64_t kLaunchGap = 4000;
constexpr std::int64_t kCall = 1000;

TEST(TelemetryByEvents, TimesAreThoseOfCuptiAndTheLaunchesWay) {
  const SimulatedRun run = telemetry_run({TELEMETRY_PROBE, "run", "8000"});
  const auto by_cupti = shortest(told_by(run_simulated(run)));
  const SimulatedResult result = run_simulated(without_cupti(run));
  EXPECT_EQ(result.line("sum "), "8000") << result;
  EXPECT_EQ(result.line("error "), "0");
  EXPECT_EQ(result.line("figure: cupti "), "not mapped");
  const Told told = told_by(result);
  EXPECT_GE(told.times.size(), kAWindow) << result;
  EXPECT_EQ(told.twice, 0);
  EXPECT_EQ(told.states(TelemetryState::by_events), 1);
  EXPECT_THAT(told.notes, testing::ElementsAre(HasSubstr("sampled by the driver's events")));
  EXPECT_EQ(result.stats()["telemetry"]["state"], "events");
  std::set<std::int64_t> different;
  std::size_t compared = 0;
  for (const auto& [launch, time] : told.times) {
    const auto known = by_cupti.find(told.launches[launch].shape);
    if (known == by_cupti.end()) continue;
    ++compared;
    different.insert(known->second);
    EXPECT_GE(time, known->second + kLaunchGap - 2) << "launch " << launch;
    EXPECT_LE(time, known->second + kLaunchGap + 2 * kCall) << "launch " << launch;
  }
  EXPECT_GE(compared, kAWindow);
  EXPECT_GE(different.size(), 4U) << "this test shows nothing";
}

TEST(TelemetryByEvents, TheProgramIsTheSame) {
  for (const char* scenario : {"captures", "contexts"}) {
    for (const std::string mode : {"adaptive", "arrival", "demand"}) {
      SimulatedRun run = without_cupti(telemetry_run({TELEMETRY_PROBE, scenario, "6000"}, mode));
      run.environment["SPILLWAY_SIMULATED_DEVICES"] = "2";
      run.seconds_limit = 60;
      const SimulatedResult result = run_simulated(run);
      expect_same_program(run, result);
      const Told told = told_by(result);
      ASSERT_GE(told.times.size(), kSomeTimes) << scenario << " " << mode << "\n" << result;
      EXPECT_EQ(told.states(TelemetryState::events_refused), 0);
      EXPECT_LT(told.times.rbegin()->first, told.launches.size());
    }
  }
}

TEST(TelemetryByEvents, GraphLaunchesAreTimedAsOne) {
  const SimulatedResult result = run_simulated(without_cupti(telemetry_run({TELEMETRY_PROBE, "graphs", "4000"})));
  const Told told = told_by(result);
  std::ptrdiff_t graphs = 0;
  for (const auto& [launch, time] : told.times) {
    if (told.launches[launch].shape != 0) continue;
    ++graphs;
    EXPECT_GE(time, 3 * kLaunchGap);
  }
  EXPECT_GT(graphs, 3) << result;
  EXPECT_GT(std::ssize(told.times), graphs);
}

TEST(TelemetryByEvents, ForksAndExitsAreClean) {
  const SimulatedResult forks = run_simulated(without_cupti(telemetry_run({TELEMETRY_PROBE, "forks", "6000"})));
  EXPECT_EQ(forks.line("children "), "20") << forks;
  EXPECT_EQ(forks.line("sum "), "6000");
  EXPECT_GE(told_by(forks).times.size(), kSomeTimes);
  for (int i = 0; i < 10; ++i) {
    const SimulatedResult result =
        run_simulated(without_cupti(telemetry_run({TELEMETRY_PROBE, "exits", std::to_string(260 + 60 * i)})));
    ASSERT_EQ(result.process.exit_code, 6) << result;
    ASSERT_EQ(result.process.signal, 0);
    ASSERT_TRUE(result.stats().is_object()) << result;
    EXPECT_EQ(result.stats()["whole"], true);
    EXPECT_THAT(result.process.err, Not(HasSubstr("refused")));
  }
}

// One line, one note, and the program goes on as it was.
TEST(TelemetryByEvents, ARefusalEndsThemForGood) {
  for (const char* fault : {"cuEventCreate:1:2", "cuEventCreate:300:2", "cuEventRecord:1:999", "cuEventRecord:40:999",
                            "cuEventQuery:3:999", "cuEventElapsedTime:9:999"}) {
    SimulatedRun run = without_cupti(telemetry_run({TELEMETRY_PROBE, "run", "4000"}));
    run.faults = fault;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    EXPECT_EQ(result.line("sum "), "4000") << fault << "\n" << result;
    EXPECT_EQ(result.line("error "), "0");
    EXPECT_EQ(result.process.out.find("launch"), std::string::npos) << result;
    EXPECT_EQ(occurrences(result.process.err, "the driver refused an event"), 1) << fault << "\n" << result;
    const Told told = told_by(result);
    EXPECT_EQ(told.states(TelemetryState::events_refused), 1);
    EXPECT_LT(told.times.size(), kAWindow);
    EXPECT_EQ(told.notes.size(), 2U);
  }
}

// Its own subscriber holds CUPTI for the first half.
TEST(TelemetryByEvents, TheyStandInWhileCuptiIsTheProgramsAndNoLonger) {
  const SimulatedRun run = telemetry_run({CUPTI_PROBE, "subscriber"});
  const SimulatedResult result = run_simulated(run);
  expect_same_program(run, result);
  const Told told = told_by(result);
  EXPECT_GE(std::distance(told.times.begin(), told.times.upper_bound(3000)), std::ptrdiff_t{kSomeTimes}) << result;
  EXPECT_GT(std::distance(told.times.upper_bound(3000), told.times.end()), std::ptrdiff_t{kAWindow}) << result;
  std::vector<TelemetryState> states;
  for (const auto& change : told.changes) {
    if (change.state != TelemetryState::window_lost) states.push_back(change.state);
  }
  EXPECT_THAT(states,
              testing::ElementsAre(TelemetryState::yielded, TelemetryState::by_events, TelemetryState::running));
}

// The policy goes by what launches name, until times tell it better; whose times they are is the same to it.
TEST(TelemetryByEvents, PolicyLearnsCrossingsFromThem) {
  SimulatedRun run = telemetry_run({TELEMETRY_PROBE, "misleads", "2500"}, "adaptive");
  run.budget = "44MiB";
  run.memory = "128MiB";
  run.seconds_limit = 90;
  EXPECT_EQ(run_simulated(run).line("really used, on the device: "), "8") << "by CUPTI";
  EXPECT_EQ(run_simulated(without_cupti(run)).line("really used, on the device: "), "8");
  run.command.back() = "600";
  const SimulatedResult blind = run_simulated(without_events(without_cupti(run)));
  EXPECT_NE(blind.line("really used, on the device: "), "8") << "this test shows nothing";
}

}  // namespace
}  // namespace spillway::tests
