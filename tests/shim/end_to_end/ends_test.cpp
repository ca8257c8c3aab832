// How memory ends, and the program: pool memory given back in right and wrong ways, whose device it was of, what is
// said of refusals, and that nothing of ours is in the driver when that ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SimulatedRun ending(const std::string& scenario, const std::string& mode, const std::string& budget = "48MiB") {
  SimulatedRun run;
  run.command = {GUEST_PROBE, scenario};
  run.mode = mode;
  run.budget = mode.empty() ? "" : budget;
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  return run;
}

class Ends : public testing::TestWithParam<std::string> {};

TEST_P(Ends, FreesOfPoolMemoryAreAnsweredAsByTheDriver) {
  const SimulatedResult bare = run_simulated(ending("pool_frees", ""));
  const SimulatedResult with = run_simulated(ending("pool_frees", GetParam()));
  ASSERT_TRUE(bare.process.out.ends_with("\nend\n")) << bare;
  EXPECT_EQ(with.process.out, bare.process.out) << with.process.err;
  EXPECT_EQ(with.leaks(), 0U) << with.report.dump(1);
}

TEST_P(Ends, PoolMemoryIsCountedOnItsOwnDevice) {
  SimulatedRun run = ending("pools_of_another_device", "");
  run.environment["SPILLWAY_SIMULATED_DEVICES"] = "2";
  const SimulatedResult bare = run_simulated(run);
  run.mode = GetParam();
  run.budget = "48MiB";
  const SimulatedResult with = run_simulated(run);
  ASSERT_TRUE(bare.process.out.ends_with("\nend\n")) << bare;
  EXPECT_THAT(bare.process.out, HasSubstr("taken here: 0\ntaken there: 12\n"));
  EXPECT_EQ(with.process.out, bare.process.out) << with.process.err;
}

// The real figures, so that the card's and ours are compared.
TEST_P(Ends, SmallAllocationsTakeTheirBlocksOfTheBudget) {
  const SimulatedResult bare = run_simulated(ending("many_small", ""));
  const SimulatedResult with = run_simulated(ending("many_small", GetParam(), "24MiB"));
  EXPECT_EQ(bare.line("held: "), "64");
  const std::uint64_t context = 2 * kMiB;  // the program's own, in nobody's budget
  EXPECT_LE(with.resident_peak(), 24 * kMiB + context) << with;
  EXPECT_EQ(with.line("free as before: "), "1") << with;
  const std::uint64_t held = std::stoul("0" + with.line("held: "));
  EXPECT_GE(held, 16U) << with;
  EXPECT_EQ(std::stoul("0" + with.line("taken: ")), (held + 1) / 2 * 2 + 2) << with;
}

// Without room for our own context what spills is on the host from its birth, until there is room.
TEST_P(Ends, OurContextDoesNotComeOnTopOfPlainMemory) {
  const SimulatedResult bare = run_simulated(ending("small_first", ""));
  SimulatedRun run = ending("small_first", GetParam(), "24MiB");
  run.traced = true;
  const SimulatedResult with = run_simulated(run);
  EXPECT_EQ(with.process.out, bare.process.out) << with.process.err;
  EXPECT_EQ(with.line("small ones: "), "12") << with;
  const std::uint64_t context = 2 * kMiB;  // the program's own, in nobody's budget
  EXPECT_LE(with.resident_peak(), 24 * kMiB + context) << with;
  EXPECT_EQ(with.count("driver_evictions"), 0U);
  EXPECT_THAT(
      with.process.err,
      HasSubstr("the budget of 24 MiB has no room for Spillway's own context, in which pages move, beside 24 MiB "
                "that cannot leave: what spills stays on the host; it takes a memory.device_budget (--device-budget) "
                "of at least 34 MiB"))
      << with;
  EXPECT_EQ(with.leaks(), 0U) << with.report.dump(1);
  const auto stats = with.stats();
  ASSERT_TRUE(stats.is_object()) << with;
  EXPECT_EQ(stats["devices"][0]["on_host_peak"], 16 * kMiB) << stats.dump(1);
  EXPECT_EQ(stats["devices"][0]["reserved"], 2 * kMiB) << "made once there was room" << stats.dump(1);
}

TEST_P(Ends, ARefusalThatTheDriverExplainsIsNotCalledOutOfMemory) {
  const SimulatedResult bare = run_simulated(ending("too_large_in_a_wrong_stream", ""));
  const SimulatedResult with = run_simulated(ending("too_large_in_a_wrong_stream", GetParam()));
  EXPECT_EQ(with.process.out, bare.process.out) << with;
  EXPECT_THAT(bare.process.out, Not(HasSubstr("no stream: 2\n")));
  EXPECT_THAT(with.process.err, Not(HasSubstr("out of memory"))) << with;
}

INSTANTIATE_TEST_SUITE_P(Modes, Ends, testing::ValuesIn(all_modes()), [](const auto& test) { return test.param; });

// Each prefetch takes a while, and there are more than one when the program ends.
TEST(EndOfTheProgram, NothingOfOursIsInTheDriverWhenThatEnds) {
  SimulatedRun run = ending("leaves_at_once", "adaptive", "24MiB");
  run.environment["SPILLWAY_HOST_BUDGET"] = "6GiB";
  run.faults = "cuMemPrefetchAsync_v2:*:delay=200ms";
  const SimulatedResult result = run_simulated(run);
  ASSERT_EQ(result.process.out, "alloc: 0\nend\n") << result;
  EXPECT_GT(result.calls("cuMemPrefetchAsync_v2"), 0U) << result;
  std::ifstream late(result.scratch->path() / "report.json.late");
  EXPECT_FALSE(late.good()) << std::string(std::istreambuf_iterator<char>(late), {});
}

}  // namespace
}  // namespace spillway::tests
