// What spills in ways of its own: map-style memory goes to the host for good, pools are served from managed arenas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The program's own context, and the driver's blocks for small allocations.
constexpr std::uint64_t kBeside = 4 * kMiB;

SimulatedRun spilling(const std::string& scenario, const std::string& mode, const std::string& budget = "24MiB") {
  SimulatedRun run;
  run.command = {GUEST_PROBE, scenario};
  run.mode = mode;
  run.budget = mode.empty() ? "" : budget;
  run.memory = "64MiB";
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  run.environment["SPILLWAY_HOST_BUDGET"] = "40MiB";
  return run;
}

class Spills : public testing::TestWithParam<const char*> {
 protected:
  const std::string mode_ = GetParam();
};

int times_in(const SimulatedResult& result, const std::string& part) {
  int count = 0;
  const std::string& text = result.process.out;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void expect_free_as_before(const SimulatedResult& result) {
  std::uint64_t before = 0;
  std::uint64_t after = 1;
  ASSERT_EQ(std::sscanf(result.line("figure: ").c_str(), "free before %lu, free after %lu", &before, &after), 2)
      << result;
  EXPECT_EQ(before, after) << result;
}

TEST_P(Spills, MapStyleMemoryIsOnTheHostWhereTheBudgetEndsAndLooksLikeTheDevices) {
  SimulatedRun run = spilling("mapped_spills", mode_);
  run.traced = true;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.exit_code, 0) << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
  EXPECT_LE(result.resident_peak(), 24 * kMiB + kBeside);
  EXPECT_EQ(result.count("driver_evictions"), 0U);
  // Five pieces on the device, which keeps a little for later, and ten on the host; then neither budget has room.
  EXPECT_EQ(result.line("refused: "), "2");
  EXPECT_EQ(result.line("held: "), "15") << result;
  EXPECT_THAT(result.process.err, HasSubstr("host budget (memory.host_budget)"));
  EXPECT_EQ(result.line("maps failed: "), "0") << result;
  EXPECT_EQ(result.line("each is one: "), "1") << result;
  EXPECT_EQ(result.line("releases failed: "), "0");
  for (const std::string same : {"location 1 0, handle types 1\n", "managed 0 type 2 ordinal 0\n"}) {
    const std::size_t first = result.process.out.find(same);
    ASSERT_NE(first, std::string::npos) << same << result;
    EXPECT_NE(result.process.out.find(same, first + 1), std::string::npos) << same << result;
  }
  expect_free_as_before(result);
  EXPECT_GE(result.count("remote_bytes"), 2 * 40 * kMiB) << "the launches on it went over the link";
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  EXPECT_EQ(stats["devices"][0]["plain"], 0) << stats.dump(1);
  EXPECT_EQ(stats["devices"][0]["managed"], 0) << stats.dump(1);
  EXPECT_EQ(stats["devices"][0]["on_host_peak"], 40 * kMiB) << stats.dump(1);
  EXPECT_EQ(stats["traffic"]["moved_to_host"]["count"], 0) << stats.dump(1);
  EXPECT_EQ(stats["ignored_events"], 0);
  // Each launch names a piece where it is mapped, and ten of them are on the host.
  const auto tables = nlohmann::json::parse(
      run_process({SPILLWAY_COMMAND, "stats", "--json", "--by", "kernel", result.traces().front().string()}).out,
      nullptr, false);
  ASSERT_TRUE(tables.is_object()) << result;
  EXPECT_EQ(tables["by_kernel"][0]["launches"], 15) << tables.dump(1);
  EXPECT_EQ(tables["by_kernel"][0]["host_bytes"], 40 * kMiB) << tables.dump(1);
}

TEST_P(Spills, MapStyleMemoryWithPropertiesThatTheHostLacksStaysOnTheDevice) {
  const SimulatedResult result = run_simulated(spilling("mapped_stays", mode_));
  EXPECT_EQ(result.process.out, "refused: 2\nheld: 6\nrefused: 2\nheld: 6\nhost by name: 0\nits location: 3\nend\n")
      << result;
  EXPECT_EQ(result.leaks(), 0U);
}

TEST_P(Spills, MapStyleMemoryIsRefusedWhereTheDeviceCannotDoIt) {
  SimulatedRun run = spilling("mapped_spills", mode_);
  run.environment["SPILLWAY_SIMULATED_NO_HOST_NUMA"] = "1";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("held: "), "6") << result;
  EXPECT_THAT(result.process.err, HasSubstr("device budget (memory.device_budget)"));
  expect_free_as_before(result);
}

TEST_P(Spills, HostMemoryThatTheDriverRefusesIsSaidAndTheCodeIsPlain) {
  SimulatedRun run = spilling("mapped_spills", mode_);
  // The first is the program's own try, five are on the device. For each more host memory is tried twice, then the
  // device.
  run.faults = "cuMemCreate:7:801,cuMemCreate:8:801,cuMemCreate:10:801,cuMemCreate:11:801";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("refused: "), "2") << result;
  EXPECT_EQ(result.line("held: "), "6") << result;
  EXPECT_THAT(result.process.err, HasSubstr("refused host memory for a map-style handle"));
  expect_free_as_before(result);
}

// A budget that one shared arena does not fit beside others, so that all ways of asking are gone.
TEST_P(Spills, PoolMemorySpillsUntilBothBudgetsEnd) {
  SimulatedRun run = spilling("pools_spill", mode_);
  run.traced = true;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.exit_code, 0) << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
  EXPECT_LE(result.resident_peak(), 24 * kMiB + kBeside);
  EXPECT_EQ(result.count("driver_evictions"), 0U);
  EXPECT_EQ(result.report["bad_frees"].size(), 0U) << "no free of ours is the driver's";
  EXPECT_EQ(result.line("refused: "), "2");
  const int held = std::stoi("0" + result.line("held: "));
  EXPECT_GE(held, 14) << "of 64 MiB, less what the migration context takes" << result;
  EXPECT_LE(held, 16) << result;
  EXPECT_EQ(result.line("each is one: "), "1") << result;
  EXPECT_EQ(result.line("used 1 reserved 1 high "), "1") << result;
  EXPECT_EQ(result.line("free: "), "0");
  EXPECT_EQ(result.line("free again: "), "1");
  EXPECT_EQ(result.line("free again at once: "), "1");
  EXPECT_EQ(result.line("again: "), "0");
  EXPECT_EQ(result.line("free inside: "), "1");
  EXPECT_EQ(result.line("frees failed: "), "0") << result;
  EXPECT_EQ(result.line("plain after all: "), "0") << result;
  EXPECT_EQ(result.line("reserved: "), "0") << result;
  EXPECT_THAT(result.process.err, HasSubstr("neither the device nor the host budget has room"));
  expect_free_as_before(result);
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  EXPECT_EQ(stats["devices"][0]["plain"], 0) << stats.dump(1);
  EXPECT_EQ(stats["devices"][0]["managed"], 0) << stats.dump(1);
  EXPECT_GE(stats["launches"], held);
  EXPECT_EQ(stats["ignored_events"], 0);
}

TEST_P(Spills, PoolMemoryKeepsTheOrderOfStreams) {
  const SimulatedResult bare = run_simulated(spilling("pools_order", ""));
  const SimulatedResult result = run_simulated(spilling("pools_order", mode_));
  EXPECT_EQ(result.process.exit_code, 0) << result;
  EXPECT_EQ(times_in(result, "it holds 7\n"), 6) << result;
  EXPECT_EQ(times_in(bare, "it holds 7\n"), 6) << bare;
  EXPECT_EQ(times_in(result, "the same stream has it at once: 1\n"), 6) << result;
  EXPECT_EQ(times_in(result, "freed: 0\n"), 6) << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
}

TEST_P(Spills, PoolMemoryLooksAsTheDriversAndWhatCannotSpillIsTheDrivers) {
  const SimulatedResult bare = run_simulated(spilling("pools_look", ""));
  SimulatedRun run = spilling("pools_look", mode_);
  run.traced = true;
  const SimulatedResult result = run_simulated(run);
  const std::string figure = result.line("figure managed: ");
  std::string facts = result.process.out;
  std::string expected = bare.process.out;
  for (std::string* each : {&facts, &expected})
    each->erase(each->find("figure"), each->find('\n', each->find("figure")) - each->find("figure"));
  EXPECT_EQ(facts, expected) << result.process.err;
  EXPECT_FALSE(figure.starts_with("-1")) << "the program's own pool is served by us: " << figure;
  EXPECT_THAT(figure, testing::EndsWith(" -1 -1")) << "a pool to share, and what is small";
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
}

TEST_P(Spills, AContextsEndIsTheEndOfItsPoolMemory) {
  const SimulatedResult bare = run_simulated(spilling("pools_end", ""));
  const SimulatedResult result = run_simulated(spilling("pools_end", mode_));
  EXPECT_EQ(result.process.exit_code, 0) << result;
  EXPECT_EQ(result.line("free of its memory: "), bare.line("free of its memory: ")) << result;
  EXPECT_EQ(result.line("free in another context: "), "0") << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
  expect_free_as_before(result);
}

TEST_P(Spills, ThreadsShareThePools) {
  const SimulatedResult result = run_simulated(spilling("pools_threads", mode_, "16MiB"));
  EXPECT_EQ(result.line("wrong: "), "0") << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
  EXPECT_EQ(result.count("driver_evictions"), 0U);
}

TEST_P(Spills, AFailureOfOursFallsBackToTheDriversPool) {
  SimulatedRun run = spilling("pools_look", mode_);
  run.faults = "cuMemAllocManaged:*:801";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("of own: "), "0") << result;
  EXPECT_EQ(result.line("figure managed: "), "-1 -1 -1") << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
}

TEST_P(Spills, PoolMemoryOomFirstIsHeardOnce) {
  SimulatedRun run = spilling("pools_spill", mode_);
  run.environment["SPILLWAY_OOM_FIRST"] = "true";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("refused: "), "2") << result;
  EXPECT_THAT(result.process.err, HasSubstr("(memory.oom_first)"));
}

TEST(SpillPools, ARunThatStaysSmallNeverMeetsThem) {
  SimulatedRun run = spilling("pools_look", "adaptive", "");
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("figure managed: "), "-1 -1 -1") << result;
}

INSTANTIATE_TEST_SUITE_P(Spill, Spills, testing::Values("demand", "arrival", "adaptive"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace spillway::tests
