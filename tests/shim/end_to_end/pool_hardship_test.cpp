// Memory in the order of streams where a program is at odds with it: what it gets is what the driver alone would give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

SimulatedRun pool_hardship(const std::string& scenario, const std::string& mode) {
  SimulatedRun run;
  run.command = {GUEST_PROBE, scenario};
  run.mode = mode;
  run.budget = mode.empty() ? "" : "24MiB";
  run.memory = scenario == "pools_contexts_end" ? "512MiB" : "64MiB";
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  run.environment["SPILLWAY_HOST_BUDGET"] = scenario == "pools_contexts_end" ? "2GiB" : "40MiB";
  return run;
}

class PoolHardship : public testing::TestWithParam<const char*> {
 protected:
  const std::string mode_ = GetParam();
  // The same lines with us as without, and nothing left behind.
  void expect_as_bare(const std::string& scenario) {
    const SimulatedResult bare = run_simulated(pool_hardship(scenario, ""));
    const SimulatedResult result = run_simulated(pool_hardship(scenario, mode_));
    EXPECT_EQ(bare.process.exit_code, 0) << bare;
    EXPECT_EQ(result.process.exit_code, 0) << result;
    EXPECT_EQ(result.process.out, bare.process.out) << result.process.err;
    EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
  }
};

TEST_P(PoolHardship, SizesThatNoMachineHasGetTheDriversCode) { expect_as_bare("pools_too_large"); }

TEST_P(PoolHardship, AFreeInAStreamOfAnotherContextDoesNotWaitForIt) { expect_as_bare("pools_held_elsewhere"); }

TEST_P(PoolHardship, OutOfMemoryIsHeardWhereAllThatIsFreeIsHeldUp) {
  const SimulatedResult result = run_simulated(pool_hardship("pools_held_at_the_end", mode_));
  EXPECT_EQ(result.process.out,
            "alloc: 0\ndone: 0\nheld: 0\nfree: 0\nalloc: 2\nagain: 0\nfree: 0\ndone: 0\nalloc: 0\nfree: 0\ndone: "
            "0\ntrim: 0\nend\n")
      << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
}

TEST_P(PoolHardship, PlainMemoryFreedInTheOrderOfAStreamWaitsForNobody) { expect_as_bare("spilled_held"); }

TEST_P(PoolHardship, AQueryThatHangsHoldsUpNobodyElse) {
  for (const auto& [scenario, out] :
       {std::pair("pools_in_a_query", "alloc: 0\nalloc: 0\nfree: 0\ndestroy: 0\nfree: 0\nend\n"),
        std::pair("frees_in_a_query", "alloc: 0\nfree: 0\ndestroy: 0\nalloc: 0\nfree: 0\nend\n")}) {
    SimulatedRun run = pool_hardship(scenario, mode_);
    run.faults = "cuEventQuery:1:delay=600000ms";
    run.environment["SPILLWAY_BACKING"] = "managed";
    run.environment["SPILLWAY_CUPTI"] = "off";
    run.environment["SPILLWAY_TELEMETRY_EVENTS"] = "off";
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.out, out) << result;
    EXPECT_EQ(result.process.exit_code, 0) << result;
  }
}

TEST_P(PoolHardship, ContextsThatEndBesideEachOtherTakeNothingFromTheNext) { expect_as_bare("pools_contexts_end"); }

TEST_P(PoolHardship, AFailureOfOurEventIsNoFailureOfTheFree) {
  for (const char* fault : {"cuEventCreate:*:2", "cuEventRecord:*:999", "cuEventRecord:1:999"}) {
    SimulatedRun run = pool_hardship("pools_look", mode_);
    const SimulatedResult bare = run_simulated(pool_hardship("pools_look", ""));
    run.faults = fault;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    for (const char* line : {"free: ", "free after: ", "plain: "})
      EXPECT_EQ(result.line(line), bare.line(line)) << result;
    EXPECT_THAT(result.process.err, testing::HasSubstr("refused an event")) << fault;
  }
}

TEST_P(PoolHardship, WithoutManagedMemoryTheDriversPoolServesWhatTheBudgetHolds) {
  SimulatedRun run = pool_hardship("pools_look", mode_);
  run.faults = "cuMemAllocManaged:*:2";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("of own: "), "0") << result;
  EXPECT_EQ(result.line("second of own: "), "0") << result;
  EXPECT_EQ(result.line("figure managed: "), "-1 -1 -1") << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
}

TEST_P(PoolHardship, WhatIsForOthersIsRefusedAsForPlainMemory) { expect_as_bare("pools_refusals"); }

INSTANTIATE_TEST_SUITE_P(PoolHardship, PoolHardship, testing::Values("demand", "adaptive"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace spillway::tests
