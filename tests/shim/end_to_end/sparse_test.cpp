// Sparse ranges from end to end, on the simulated device and its CUPTI: host chunks are unmapped, their use is told by
// address, and what is used comes in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;

SimulatedRun sparse_run(const std::string& scenario) {
  SimulatedRun run;
  run.command = {SPARSE_PROBE, scenario};
  run.mode = "adaptive";
  run.budget = "44MiB";
  run.traced = true;
  run.seconds_limit = 120;
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  run.environment["SPILLWAY_PLAIN_SHARE"] = "0%";
  run.environment["SPILLWAY_PROBES"] = "auto";
  return run;
}

// Managed pages alone: contexts take some of the card as well.
std::uint64_t managed_peak(const SimulatedResult& result) {
  return result.report.at("devices").at(0).at("managed_resident_peak_bytes").get<std::uint64_t>();
}

TEST(Sparse, WhatIsUsedComesInEachTime) {
  const SimulatedResult result = run_simulated(sparse_run("turns"));
  EXPECT_EQ(result.process.out,
            "from chunk 36: on the device\nfrom chunk 24: on the device\nfrom chunk 36: on the device\n"
            "from chunk 0: on the device\n")
      << result;
  EXPECT_LE(managed_peak(result), 44 * kMiB);
  EXPECT_EQ(result.count("driver_evictions"), 0U);
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  EXPECT_GT(stats["telemetry"]["probes_used"], 3);
}

TEST(Sparse, WithoutProbesNothingOfThatHappens) {
  SimulatedRun run = sparse_run("dense");
  run.environment["SPILLWAY_PROBES"] = "off";
  EXPECT_EQ(run_simulated(run).process.out, "some faults: no\nfaults later: 0\n");
}

TEST(Sparse, WhatIsUsedAsAWholeIsProbedOnce) {
  const SimulatedResult result = run_simulated(sparse_run("dense"));
  EXPECT_EQ(result.process.out, "some faults: yes\nfaults later: 0\n") << result;
  EXPECT_LE(result.count("mapping_faults"), 8U);
}

TEST(Sparse, AProfilerThatTakesCuptiFindsEverythingMapped) {
  const SimulatedResult result = run_simulated(sparse_run("profiled"));
  EXPECT_EQ(result.process.out,
            "settled: yes\nregister: 0\nenable: 0\nfaults under the profiler: 0\ndisable: 0\nsettled again: yes\n")
      << result;
}

TEST(Sparse, DecodingReadsLessOverTheLinkThanByArrival) {
  SimulatedRun run;
  run.command = {DECODE_KV, "--requests",   "24",  "--resident", "4",   "--context", "512", "--heads", "16", "--layers",
                 "1",       "--vocabulary", "256", "--steps",    "240", "--quantum", "240", "--check", "4"};
  run.mode = "arrival";
  run.budget = "72MiB";
  run.memory = "512MiB";
  run.traced = true;
  run.seconds_limit = 240;
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = SPILLWAY_TWINS;
  run.environment["SPILLWAY_PROBES"] = "auto";
  const SimulatedResult by_arrival = run_simulated(run);
  run.mode = "adaptive";
  const SimulatedResult adaptive = run_simulated(run);
  for (const SimulatedResult* result : {&by_arrival, &adaptive}) {
    EXPECT_THAT(result->process.out, HasSubstr("outputs verified")) << *result;
    EXPECT_LE(managed_peak(*result), 72 * kMiB);
  }
  EXPECT_LT(adaptive.count("remote_bytes"), by_arrival.count("remote_bytes") / 4 * 3) << adaptive;
  EXPECT_EQ(adaptive.line("cache check-sum "), by_arrival.line("cache check-sum "));
  EXPECT_EQ(adaptive.count("driver_evictions"), 0U);
}

}  // namespace
}  // namespace spillway::tests
