// Ways past a budget and memory of somebody else's, with and without us: the same facts, and the budget is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;

SimulatedRun paths_probe(const std::vector<std::string>& words, const std::string& mode) {
  SimulatedRun run;
  run.command = {GUEST_PROBE};
  run.command.insert(run.command.end(), words.begin(), words.end());
  run.mode = mode;
  run.budget = mode.empty() ? "" : "24MiB";
  run.memory = "96MiB";
  run.traced = !mode.empty();
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  return run;
}

class Paths : public testing::TestWithParam<std::string> {
 protected:
  // The run with us, after it was compared with the bare one.
  SimulatedResult as_bare(const std::string& scenario) {
    const SimulatedResult bare = run_simulated(paths_probe({scenario}, ""));
    SimulatedResult with = run_simulated(paths_probe({scenario}, GetParam()));
    EXPECT_THAT(bare.process.out, HasSubstr("\nend\n")) << bare;
    EXPECT_EQ(with.process.out, bare.process.out) << with.process.err;
    EXPECT_EQ(with.process.exit_code, 0) << with;
    EXPECT_EQ(with.leaks(), bare.leaks()) << with.report.dump(1);
    EXPECT_EQ(with.count("driver_evictions"), 0U) << with;
    return with;
  }
};

TEST_P(Paths, CapturesEndWellWhileMemoryIsShortAndAnotherThreadWorks) {
  const SimulatedResult with = as_bare("captures_under_pressure");
  EXPECT_EQ(with.line("node count "), "12");
  EXPECT_GT(with.calls("cuMemAllocManaged"), 0U) << "nothing spills: this test shows nothing";
  const auto stats = with.stats();
  ASSERT_TRUE(stats.is_object()) << with;
  EXPECT_EQ(stats["graph_launches"], 6) << stats.dump(1);
  // Of the other thread, in each of the three captures; what is captured does not run.
  EXPECT_EQ(stats["launches"], 6 + 3 * 36) << stats.dump(1);
}

TEST_P(Paths, TheFirstSpillMayComeWithinACapture) {
  const SimulatedResult with = as_bare("first_spill_in_a_capture");
  EXPECT_EQ(with.line("node count "), "2");
  EXPECT_GT(with.calls("cuMemAllocManaged"), 0U) << "nothing spills: this test shows nothing";
}

// Whatever the driver takes its time for.
TEST_P(Paths, ACaptureIsLeftAloneFromItsFirstMomentToItsLast) {
  for (const char* slow : {"cuStreamGetCtx:*:delay=20ms", "cuStreamEndCapture:*:delay=50ms",
                           "cuStreamEndCapture:*:delay=50ms,cuCtxSynchronize:*:delay=20ms"}) {
    SimulatedRun run = paths_probe({"captures_begin_and_end"}, GetParam());
    run.faults = slow;
    const SimulatedResult result = run_simulated(run);
    const std::string captured = "begin: 0\nlaunch: 0\nend: 0\n";
    EXPECT_EQ(result.process.out, captured + captured + captured + "end\n") << slow << result;
    EXPECT_GT(result.calls("cuMemAllocManaged"), 0U) << "nothing spills: this test shows nothing";
  }
}

TEST_P(Paths, ARangeIsWhatIsMappedInIt) {
  const SimulatedResult with = as_bare("remaps");
  const auto stats = with.stats();
  ASSERT_TRUE(stats.is_object()) << with;
  EXPECT_EQ(stats["devices"][0]["plain"], 0) << "physical memory stays counted after its end: " << stats.dump(1);
  EXPECT_EQ(stats["allocations"]["by_kind"]["stretchable"]["count"], 2) << stats.dump(1);
}

TEST_P(Paths, ImportsAreForwardedAndLeaveTheTotalsRight) {
  const SimulatedResult with = as_bare("imports");
  const auto stats = with.stats();
  ASSERT_TRUE(stats.is_object()) << with;
  EXPECT_EQ(stats["devices"][0]["plain"], 0) << stats.dump(1);
  EXPECT_EQ(stats["allocations"]["by_kind"]["stretchable"]["count"], 1) << "memory that comes in is there already";
}

TEST_P(Paths, ManagedMemoryOfTheProgramsOwnStaysWhereItsHintsPutIt) {
  const SimulatedResult with = as_bare("own_managed");
  EXPECT_GT(with.calls("cuMemAllocManaged"), 1U) << "nothing of ours spills: this test shows nothing";
}

TEST_P(Paths, AProgramThatNeverStartsCudaIsNotStarted) {
  const SimulatedResult with = as_bare("never_starts");
  EXPECT_EQ(with.line("started: "), "0");
  EXPECT_EQ(with.line("contexts: "), "0");
  EXPECT_TRUE(with.traces().empty()) << "a trace of no CUDA";
}

TEST_P(Paths, AttributesReachTheDriverAsTheyAre) {
  const SimulatedResult with = as_bare("bad_attributes");
  EXPECT_EQ(with.line("an attribute without a list: "), "1, forwarded 1") << with;
}

TEST_P(Paths, ARuleForALibraryKeepsItsMemoryPlainAndNoOther) {
  const Scratch folder;
  const std::string policy = (folder.path() / "policy.toml").string();
  std::ofstream(policy)
      << "[[rule]]\nname = \"collectives\"\nmatch = { caller = \"libnccl*\" }\nbacking = \"device\"\n";
  SimulatedRun run = paths_probe({"library_memory", COLLECTIVE_LIBRARY}, GetParam());
  run.environment["SPILLWAY_PLAIN_SHARE"] = "0%";  // else what comes first is plain by itself
  const SimulatedResult without_rule = run_simulated(run);
  EXPECT_EQ(without_rule.line("library's export: "), "1") << without_rule;
  run.environment["SPILLWAY_POLICY"] = policy;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("library's alloc: "), "0") << result;
  EXPECT_EQ(result.line("library's export: "), "0") << result;
  EXPECT_EQ(result.line("program's export: "), "1") << result;
  EXPECT_THAT(result.process.err, HasSubstr("cannot be shared with another process"));
}

INSTANTIATE_TEST_SUITE_P(Manners, Paths, testing::ValuesIn(all_modes()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace spillway::tests
