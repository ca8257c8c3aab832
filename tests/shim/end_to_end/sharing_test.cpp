// Memory that another process made is seen and not counted; map-style memory leaves room for what comes after it; a
// graphed loop is learned within a dozen replays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

SimulatedRun probe(std::vector<std::string> scenario, const std::string& budget) {
  SimulatedRun run;
  run.command = {GUEST_PROBE};
  run.command.insert(run.command.end(), scenario.begin(), scenario.end());
  run.mode = "adaptive";
  run.budget = budget;
  run.memory = "128MiB";
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  run.traced = true;
  return run;
}

TEST(Sharing, WhatAnotherProcessMadeIsSeenAndNotCounted) {
  // The budget of each process has no room for the other's memory.
  SimulatedRun run = probe({"imports_ipc"}, "16MiB");
  run.environment["SPILLWAY_BACKING"] = "device";
  const SimulatedResult result = run_simulated(run);
  ASSERT_EQ(result.process.exit_code, 0) << result;
  EXPECT_EQ(result.line("open: "), "0") << result;
  EXPECT_EQ(result.line("child: "), "0") << result;
  EXPECT_EQ(result.line("close: "), "0, forwarded 1") << result;
  EXPECT_EQ(result.line("close again: "), "1, forwarded 1") << result;
  ASSERT_EQ(result.traces().size(), 2U);
  int importers = 0;
  for (const auto& path : result.traces()) {
    const auto stats = nlohmann::json::parse(
        run_process({SPILLWAY_COMMAND, "stats", "--json", "--by", "kernel", path.string()}).out, nullptr, false);
    ASSERT_TRUE(stats.is_object());
    EXPECT_EQ(stats["ignored_events"], 0);
    const auto& kinds = stats["allocations"]["by_kind"];
    if (kinds["imported"]["count"] == 0) continue;
    ++importers;
    EXPECT_EQ(kinds["imported"]["bytes"], 8 * kMiB) << stats.dump(1);
    EXPECT_EQ(stats["allocations"]["freed"], 1) << stats.dump(1);
    EXPECT_EQ(stats["devices"][0]["plain"], 0) << stats.dump(1);
    EXPECT_EQ(stats["launches"], 1) << stats.dump(1);
  }
  EXPECT_EQ(importers, 1);
}

TEST(Sharing, MapStyleMemoryLeavesRoomForWhatComesAfterIt) {
  const SimulatedResult result = run_simulated(probe({"mapped_then_small"}, "24MiB"));
  EXPECT_EQ(result.line("create: "), "0") << result;
  EXPECT_EQ(result.line("small: "), "0") << result;
  EXPECT_EQ(result.process.out.find(": 2"), std::string::npos) << result;
  EXPECT_EQ(result.stats()["devices"][0]["on_host_peak"], 7 * 4 * kMiB) << result;
}

TEST(Graphs, AreLearnedWithinADozenReplays) {
  const SimulatedResult result = run_simulated(probe({"graph_replays", "12"}, "48MiB"));
  ASSERT_EQ(result.process.exit_code, 0) << result;
  EXPECT_NE(result.line("figure: resident before "), "16") << "it fits: this test shows nothing";
  EXPECT_EQ(result.stats()["graph_launches"], 12) << result;
  EXPECT_LE(result.resident_peak(), 48 * kMiB + 4 * kMiB);
}

}  // namespace
}  // namespace spillway::tests
