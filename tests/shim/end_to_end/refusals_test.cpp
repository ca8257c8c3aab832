// The program's refusals are the driver's own, and room that policy counts on is there before it is given away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

SimulatedRun probe_refused(const std::string& scenario, const std::string& mode, const std::string& budget) {
  SimulatedRun run;
  run.command = {GUEST_PROBE, scenario};
  run.mode = mode;
  run.budget = mode.empty() ? "" : budget;
  run.memory = "64MiB";
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  return run;
}

// Scenario and mode.
class RefusedAsBare : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(RefusedAsBare, TheDriversOwnCodes) {
  const auto [scenario, mode] = GetParam();
  const SimulatedResult bare = run_simulated(probe_refused(scenario, "", ""));
  SimulatedRun run = probe_refused(scenario, mode, "24MiB");
  // What the scenario takes as too large must be too large for the host as well.
  run.environment["SPILLWAY_HOST_BUDGET"] = "1GiB";
  const SimulatedResult with = run_simulated(run);
  ASSERT_TRUE(bare.process.out.ends_with("\nend\n")) << bare;
  EXPECT_EQ(with.process.out, bare.process.out) << with.process.err;
  EXPECT_EQ(with.leaks(), bare.leaks()) << with.report.dump(1);
}

INSTANTIATE_TEST_SUITE_P(
    Refusals, RefusedAsBare,
    testing::Combine(testing::Values("wrong_and_too_large", "captured_allocation", "hints_on_plain"),
                     testing::Values("demand", "arrival", "adaptive", "off")),
    [](const auto& test) { return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param); });

// The program's own context is in nobody's budget.
constexpr std::uint64_t kProgramsContext = 2 * kMiB;

class Room : public testing::TestWithParam<const char*> {};

TEST_P(Room, WhatIsBeingFreedIsNotGoneYet) {
  SimulatedRun run = probe_refused("asks_during_a_free", GetParam(), "10MiB");
  run.faults = "cuMemFree_v2:1:delay=500ms";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "alloc: 0\nlaunch: 0\nalloc during the free: 0\nfree: 0\nend\n") << result;
  EXPECT_LE(result.resident_peak(), 10 * kMiB + kProgramsContext) << result;
  EXPECT_GE(result.resident_peak(), 10 * kMiB) << "the device was never full: this shows nothing";
}

TEST_P(Room, WhatOurOwnContextTakesIsCountedBeforeAnybodyIsPlaced) {
  SimulatedRun run = probe_refused("asks_at_the_start", GetParam(), "10MiB");
  run.faults = "cuCtxCreate_v2:2:delay=500ms";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "alloc: 0\nalloc: 0\nlaunch: 0\nend\n") << result;
  EXPECT_LE(result.resident_peak(), 10 * kMiB + kProgramsContext) << result;
  EXPECT_GE(result.resident_peak(), 10 * kMiB) << "the device was never full: this shows nothing";
}

TEST_P(Room, WhatWasToLeaveAndIsFreedFirstIsAskedForAnew) {
  SimulatedRun run = probe_refused("takes_room_away", GetParam(), "10MiB");
  // Two come in, the third goes out and takes its time; the free ends after it.
  run.faults = "cuMemPrefetchAsync_v2:3:delay=1000ms,cuMemFree_v2:1:delay=1500ms";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "alloc: 0\nalloc: 0\nalloc: 0\nalloc: 0\nend\n") << result;
  EXPECT_LE(result.resident_peak(), 10 * kMiB + kProgramsContext) << result;
  EXPECT_GE(result.resident_peak(), 10 * kMiB) << "the device was never full: this shows nothing";
}

// Without a budget: memory may be plain while there is room.
TEST_P(Room, WhatCanSpillIsNeverRefusedForWhatOtherThreadsGiveBack) {
  SimulatedRun run = probe_refused("churns", GetParam(), "");
  run.traced = true;
  run.seconds_limit = 120;  // 2,400 requests one after the other, each with its moves
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "refused: 0\nend\n") << result;
  EXPECT_LE(result.resident_peak(), 60 * kMiB + kProgramsContext) << result;
  EXPECT_EQ(result.count("driver_evictions"), 0U) << result;
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  for (const auto& decision : stats["decisions"]) EXPECT_NE(decision["decision"], "refuse allocation") << decision;
}

INSTANTIATE_TEST_SUITE_P(Refusals, Room, testing::Values("arrival", "adaptive"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace spillway::tests
