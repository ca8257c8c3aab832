// The shim as a guest: one awkward program after another, with and without us. What it prints (codes, how often the
// driver was called, values) is the same; what differs is said here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// In nobody's budget: the program's own context, and what the driver's block for small allocations is larger than they
// are (2 MiB each here).
constexpr std::uint64_t kUncounted = 4 * kMiB;

SimulatedRun probe(const std::string& scenario, const std::string& mode = "", const std::string& budget = "24MiB") {
  SimulatedRun run;
  run.command = {GUEST_PROBE, scenario};
  run.mode = mode;
  run.budget = mode.empty() ? "" : budget;
  run.memory = "64MiB";
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  return run;
}

// Without the lines that tell figures of policy's.
std::string facts(const SimulatedResult& result) {
  std::istringstream lines(result.process.out);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("figure")) kept += line + "\n";
  }
  return kept;
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void expect_good_guest(const SimulatedResult& result, std::uint64_t budget) {
  EXPECT_EQ(result.process.exit_code, 0) << result;
  EXPECT_EQ(result.count("driver_evictions"), 0U) << result;
  EXPECT_EQ(result.leaks(), 0U) << result.report.dump(1);
  EXPECT_LE(result.resident_peak(), budget + kUncounted) << result;
}

// Scenario and mode.
class AsBare : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(AsBare, SameFactsAndNothingLeft) {
  const auto [scenario, mode] = GetParam();
  const SimulatedResult bare = run_simulated(probe(scenario));
  SimulatedRun run = probe(scenario, mode);
  // What we serve from arenas of our own we free ourselves; spill_test compares its codes.
  run.environment["SPILLWAY_SPILL_POOLS"] = "off";
  const SimulatedResult with = run_simulated(run);
  ASSERT_THAT(bare.process.out, HasSubstr("\nend\n")) << bare;
  EXPECT_EQ(facts(with), facts(bare)) << with.process.err;
  EXPECT_EQ(with.process.exit_code, 0) << with;
  EXPECT_EQ(with.leaks(), bare.leaks()) << with.report.dump(1);
  EXPECT_EQ(with.count("driver_evictions"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Manners, AsBare,
                         testing::Combine(testing::Values("null_outputs", "frees", "contexts", "launches", "capture",
                                                          "attributes", "hints", "information"),
                                          testing::Values("demand", "arrival", "adaptive", "off")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
                         });

class EachMode : public testing::TestWithParam<const char*> {
 protected:
  const std::string mode_ = GetParam();
};

TEST_P(EachMode, OutOfMemoryIsPlainEarlyAndOver) {
  SimulatedRun run = probe("out_of_memory", mode_);
  run.environment["SPILLWAY_HOST_BUDGET"] = "40MiB";
  const SimulatedResult result = run_simulated(run);
  expect_good_guest(result, 24 * kMiB);
  EXPECT_EQ(facts(result),
            "refused: 2\nheld some: 1\nno lingering error: 0\nlaunch: 0\nfree one: 0\nsmaller retry: 0\nend\n")
      << result;
  EXPECT_THAT(result.process.err, HasSubstr("out of memory"));
  EXPECT_THAT(result.process.err, HasSubstr("host budget (memory.host_budget)"));
  // 40 MiB on the host and 24 on the device hold no more than seven of these.
  EXPECT_LE(result.count("allocations"), 10U) << result.report.dump(1);
}

TEST_P(EachMode, OomFirstIsSeenByTheProgramOnceBeforeAnythingSpills) {
  SimulatedRun run = probe("asks_again", mode_);
  run.environment["SPILLWAY_OOM_FIRST"] = "true";
  const SimulatedResult result = run_simulated(run);
  expect_good_guest(result, 24 * kMiB);
  EXPECT_EQ(result.line("first refusal: "), "2") << result;
  EXPECT_LE(std::stoi("0" + result.line("held: ")), 3) << "24 MiB hold no more";
  EXPECT_EQ(result.line("at once again: "), "0") << result;
  EXPECT_EQ(result.line("after the cache is dropped: "), "0") << result;
  EXPECT_THAT(result.process.err, HasSubstr("(memory.oom_first)"));
  EXPECT_THAT(result.process.err, Not(HasSubstr("(memory.device_budget)")));
}

TEST_P(EachMode, TotalsAreExactAfterContextsEnded) {
  SimulatedRun run = probe("contexts", mode_);
  run.traced = true;
  const SimulatedResult result = run_simulated(run);
  std::uint64_t before = 0;
  std::uint64_t after = 1;
  ASSERT_EQ(std::sscanf(result.line("figure: ").c_str(), "free before %lu, free after %lu", &before, &after), 2)
      << result;
  EXPECT_EQ(before, after) << result;
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  EXPECT_EQ(stats["devices"][0]["plain"], 0) << stats.dump(1);
  EXPECT_EQ(stats["devices"][0]["managed"], 0) << stats.dump(1);
}

TEST_P(EachMode, EveryFormOfLaunchIsCounted) {
  SimulatedRun run = probe("launches", mode_);
  run.traced = true;
  const auto stats = run_simulated(run).stats();
  ASSERT_TRUE(stats.is_object());
  // Plain, extended, cooperative, packed, per thread; three launches of the graph; what was captured or refused is
  // none.
  EXPECT_EQ(stats["launches"], 8) << stats.dump(1);
  EXPECT_EQ(stats["graph_launches"], 3) << stats.dump(1);
  EXPECT_EQ(stats["dropped_events"], 0);
}

TEST_P(EachMode, MapStyleMemoryEndsAtTheBudget) {
  SimulatedRun run = probe("mapped", mode_);
  run.environment["SPILLWAY_SPILL_VMM"] = "off";
  const SimulatedResult result = run_simulated(run);
  expect_good_guest(result, 24 * kMiB);
  EXPECT_EQ(result.line("refused: "), "2");
  EXPECT_EQ(result.line("still mapped, so still counted: "), "2");
  EXPECT_EQ(result.line("one came back: "), "0") << result;
  EXPECT_EQ(result.line("not two: "), "2");
  EXPECT_THAT(result.process.err,
              HasSubstr("device budget (memory.device_budget); raise it; `spillway doctor -- PROGRAM` "
                        "says what of its memory cannot spill\n"));
}

TEST_P(EachMode, PoolMemoryEndsAtTheBudget) {
  SimulatedRun run = probe("pools", mode_);
  run.environment["SPILLWAY_SPILL_POOLS"] = "off";
  const SimulatedResult result = run_simulated(run);
  expect_good_guest(result, 24 * kMiB);
  EXPECT_EQ(result.line("refused: "), "2");
  EXPECT_EQ(result.line("again: "), "0");
  EXPECT_THAT(result.process.err,
              HasSubstr("device budget (memory.device_budget); raise it; `spillway doctor -- PROGRAM` "
                        "says what of its memory cannot spill\n"));
}

TEST_P(EachMode, FreeAndTotalAreVirtualOrRealAsSaid) {
  SimulatedRun run = probe("information", mode_);
  run.environment["SPILLWAY_HOST_BUDGET"] = "40MiB";
  const SimulatedResult as_virtual = run_simulated(run);
  EXPECT_EQ(as_virtual.line("wrong figures: "), "0") << as_virtual;
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  ASSERT_EQ(std::sscanf(as_virtual.line("figure first: ").c_str(), "%lu of %lu", &free, &total), 2) << as_virtual;
  EXPECT_EQ(total, 64 * kMiB) << "24 MiB of device and 40 MiB of host";
  run.environment["SPILLWAY_REPORT"] = "real";
  const SimulatedResult as_real = run_simulated(run);
  EXPECT_EQ(as_real.line("wrong figures: "), "0") << as_real;
  ASSERT_EQ(std::sscanf(as_real.line("figure first: ").c_str(), "%lu of %lu", &free, &total), 2) << as_real;
  EXPECT_EQ(total, 24 * kMiB);
  // What the context for moves takes, made with the first memory that may spill, is gone for good.
  ASSERT_EQ(std::sscanf(as_real.line("figure after all: ").c_str(), "%lu of %lu", &free, &total), 2) << as_real;
  EXPECT_EQ(free, 22 * kMiB);
  EXPECT_THAT(as_real.process.err, HasSubstr("the program sees real memory"));
}

TEST_P(EachMode, WithoutManagedMemorySpillingIsOffAndSaidOnce) {
  for (const char* scenario : {"frees", "launches", "attributes", "sharing"}) {
    SimulatedRun bare = probe(scenario);
    SimulatedRun run = probe(scenario, mode_);
    for (SimulatedRun* each : {&bare, &run}) each->environment["SPILLWAY_SIMULATED_NO_MANAGED"] = "1";
    const SimulatedResult with = run_simulated(run);
    EXPECT_EQ(facts(with), facts(run_simulated(bare))) << with;
    EXPECT_EQ(times(with.process.err, "spilling is off"), 1) << with;
    EXPECT_EQ(with.calls("cuMemPrefetchAsync_v2"), 0U);
  }
}

TEST_P(EachMode, SpilledMemoryCannotBeExportedAndTheLineSaysWhatToDo) {
  const SimulatedResult result = run_simulated(probe("sharing", mode_));
  EXPECT_NE(result.line("export: "), "0") << result;
  EXPECT_EQ(times(result.process.err, "cannot be shared"), 1) << result;
  EXPECT_THAT(result.process.err, HasSubstr("memory.backing"));
  SimulatedRun plain = probe("sharing", mode_);
  plain.environment["SPILLWAY_BACKING"] = "device";
  EXPECT_EQ(run_simulated(plain).line("export: "), "0");
}

TEST_P(EachMode, ARuleOfThePolicyFileKeepsMemoryPlain) {
  const Scratch folder;
  const std::string policy = (folder.path() / "policy.toml").string();
  std::ofstream(policy) << "[[rule]]\nname = \"shared\"\nmatch = { size = \"8MiB..\" }\nbacking = \"device\"\n";
  SimulatedRun run = probe("sharing", mode_);
  run.environment["SPILLWAY_POLICY"] = policy;
  run.traced = true;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.line("export: "), "0") << result;
  // And the trace knows what it is called.
  ASSERT_EQ(result.traces().size(), 1U);
  const std::string story =
      run_process({SPILLWAY_COMMAND, "stats", "--explain", "1", result.traces().front().string()}).out;
  EXPECT_THAT(story, HasSubstr("(rule \"shared\" (policy.toml:1))")) << story;
}

// Not that there was no room: there is enough.
TEST(Rules, MemoryThatARuleSendsToTheHostIsThereByThatRule) {
  const Scratch folder;
  const std::string policy = (folder.path() / "policy.toml").string();
  std::ofstream(policy) << "[[rule]]\nname = \"away\"\nmatch = { order = 2 }\nplace = \"host\"\n";
  SimulatedRun run;
  run.command = {GUEST_PROBE, "work", "2"};
  run.mode = "arrival";
  run.budget = "48MiB";
  run.memory = "64MiB";
  run.traced = true;
  run.environment = {{"SPILLWAY_SIMULATED_KERNELS", TEST_TWINS}, {"SPILLWAY_POLICY", policy}};
  const SimulatedResult result = run_simulated(run);
  ASSERT_EQ(result.traces().size(), 1U) << result;
  const auto stats = nlohmann::json::parse(
      run_process({SPILLWAY_COMMAND, "stats", "--json", "--by", "rule", result.traces().front().string()}).out);
  ASSERT_EQ(stats["by_rule"].size(), 2U) << stats["by_rule"].dump(1);
  EXPECT_EQ(stats["by_rule"][1]["name"], "away");
  EXPECT_EQ(stats["by_rule"][1]["populated"], 4 * kMiB);
  for (const auto& decision : stats["decisions"]) EXPECT_NE(decision["reason"], "window_full");
}

TEST_P(EachMode, TheStartLineShowsTheBudgetInForce) {
  const SimulatedResult set = run_simulated(probe("out_of_memory", mode_));
  EXPECT_THAT(set.process.err, HasSubstr(": budget 24 MiB of 64 MiB, host "));
  const SimulatedResult left = run_simulated(probe("out_of_memory", mode_, ""));
  // Of 64 MiB, 2 are the program's own context and 2 are reserved.
  EXPECT_THAT(left.process.err, HasSubstr(": budget 60 MiB of 64 MiB (what is free, less a reserve), host "));
  const SimulatedResult much = run_simulated(probe("out_of_memory", mode_, "63MiB"));
  EXPECT_THAT(much.process.err, HasSubstr(": budget 62 MiB of 64 MiB (63 MiB asked for, no more is free), host "));
}

// What is not there is promised to nobody, and no budget is told to be raised that is beyond it.
TEST_P(EachMode, AHostBudgetBeyondTheMachineIsWhatTheMachineHas) {
  SimulatedRun run = probe("information", mode_);
  run.environment["SPILLWAY_HOST_BUDGET"] = "512TiB";
  const SimulatedResult information = run_simulated(run);
  EXPECT_THAT(information.process.err, HasSubstr(" (512 TiB asked for, no more is free); the program sees"));
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  ASSERT_EQ(std::sscanf(information.line("figure first: ").c_str(), "%lu of %lu", &free, &total), 2) << information;
  EXPECT_LT(total, std::uint64_t{256} << 40U);
  run.command = {GUEST_PROBE, "far_too_much"};
  const SimulatedResult refused = run_simulated(run);
  EXPECT_EQ(refused.line("far too much: "), "2") << refused;
  EXPECT_THAT(refused.process.err, HasSubstr(" of host memory that there are; end what else uses host memory, or raise "
                                             "the container's limit (memory.host_budget asks for all of it)\n"));
  run.environment["SPILLWAY_HOST_BUDGET"] = "50%";
  EXPECT_THAT(run_simulated(run).process.err, HasSubstr(" over the host budget (memory.host_budget); raise it"));
}

TEST_P(EachMode, WhatIsKeptPlainIsPromisedNoHostMemoryAndTheRefusalNamesWhoKeepsIt) {
  SimulatedRun run = probe("information", mode_);
  run.environment["SPILLWAY_BACKING"] = "device";
  const SimulatedResult set = run_simulated(run);
  EXPECT_THAT(set.process.err,
              HasSubstr(", host none (memory.backing keeps all on the device); the program sees virtual"));
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  ASSERT_EQ(std::sscanf(set.line("figure first: ").c_str(), "%lu of %lu", &free, &total), 2) << set;
  EXPECT_EQ(total, 24 * kMiB);
  EXPECT_THAT(set.process.err,
              HasSubstr("over the device budget (memory.device_budget); raise it, or let the memory spill: "
                        "memory.backing = \"device\" (--backing) keeps it plain\n"));
  // Small memory would not spill in any case.
  run.command = {GUEST_PROBE, "many_small"};
  EXPECT_THAT(run_simulated(run).process.err, HasSubstr("says what of its memory cannot spill\n"));
  const Scratch folder;
  const std::string policy = (folder.path() / "policy.toml").string();
  std::ofstream(policy) << "[[rule]]\nname = \"kept\"\nmatch = { size = \"4MiB..\" }\nbacking = \"device\"\n";
  SimulatedRun by_rule = probe("information", mode_);
  by_rule.environment["SPILLWAY_POLICY"] = policy;
  EXPECT_THAT(run_simulated(by_rule).process.err, HasSubstr("let the memory spill: rule \"kept\" (" + policy +
                                                            ":1, backing = \"device\") keeps it plain\n"));
  // A rule that lets something spill is told of the memory for it.
  std::ofstream(policy) << "[[rule]]\nname = \"let go\"\nmatch = { size = \"64MiB..\" }\nbacking = \"managed\"\n";
  by_rule.environment["SPILLWAY_BACKING"] = "device";
  EXPECT_THAT(run_simulated(by_rule).process.err, testing::Not(HasSubstr("host none")));
}

TEST_P(EachMode, RefusalsForTheHostNameTheBudgetWhereItIsBelowWhatThereIs) {
  SimulatedRun run = probe("far_too_much", mode_);
  for (const auto& [budget, part] : std::vector<std::pair<std::string, std::string>>{
           {"100%", " of host memory that there are; end what else"},
           {"99%", " over the host budget (memory.host_budget); raise it, or end what else uses host memory\n"}}) {
    run.environment["SPILLWAY_HOST_BUDGET"] = budget;
    EXPECT_THAT(run_simulated(run).process.err, HasSubstr(part)) << budget;
  }
}

// A budget for the host beyond the machine is no reason to speak of the host where the device is full.
TEST_P(EachMode, RefusalsForTheDeviceNameTheDevice) {
  SimulatedRun run = probe("mapped", mode_);
  run.environment["SPILLWAY_BACKING"] = "device";
  run.environment["SPILLWAY_HOST_BUDGET"] = "512TiB";
  EXPECT_THAT(run_simulated(run).process.err,
              HasSubstr(" over the device budget (memory.device_budget); raise it, or let the memory spill: "
                        "memory.backing = \"device\" (--backing) keeps it plain\n"));
}

TEST(Settings, AMisspeltVariableIsNamedOnceWithTheNearest) {
  SimulatedRun run = probe("frees", "arrival");
  run.environment["SPILLWAY_WINDWO"] = "3MiB";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(times(result.process.err, "did you mean SPILLWAY_WINDOW?"), 1) << result;
  // What the tests and the simulated device are told by is nobody's mistake.
  EXPECT_EQ(times(result.process.err, "is not a setting"), 1) << result;
}

TEST(Settings, AQuestionIsAskedAndWhatHappensIsSaid) {
  SimulatedRun run = probe("frees", "arrival");
  run.environment["SPILLWAY_DEVICE_BUDGET"] = "16";
  EXPECT_THAT(run_simulated(run).process.err,
              HasSubstr("did you mean \"16%\" or \"16MiB\"? (going on with the default)\n"));
}

// A small request may take a block of the driver's: what is missing is more than was asked for.
TEST(Settings, ABudgetTooSmallForASmallRequestSaysWhy) {
  SimulatedRun run = probe("", "arrival", "2MiB");
  run.command = {TRAIN_ADAM, "--layers", "2", "--width", "512", "--batch", "16", "--steps", "2"};
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = SPILLWAY_TWINS;
  EXPECT_THAT(run_simulated(run).process.err,
              testing::ContainsRegex("[0-9.]+ K?i?B asked for, which may take a block of 2 MiB, "
                                     "2 MiB over the device budget"));
}

TEST(Settings, ATraceThatGotAnotherNameIsNamed) {
  const Scratch folder;
  const std::string path = (folder.path() / "a.swt").string();
  std::ofstream(path) << "precious";
  SimulatedRun run = probe("frees", "arrival");
  run.environment["SPILLWAY_TRACE_PATH"] = path;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(times(result.process.err, (folder.path() / "a.1.swt").string()), 1) << result;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "a.1.swt"));
}

INSTANTIATE_TEST_SUITE_P(Manners, EachMode, testing::Values("demand", "arrival", "adaptive"),
                         [](const auto& test) { return std::string(test.param); });

// Both examples in every mode at three budgets: the driver never evicts, by its own count no more is resident than
// allowed, and every bit is as without us.
struct Example {
  std::vector<std::string> command;
  const char* result;
};

// From the program's own "... MiB allocated".
std::uint64_t asked_for(const SimulatedResult& result) {
  const std::size_t end = result.process.out.find(" MiB allocated");
  const std::size_t start = result.process.out.rfind(' ', end - 1);
  return static_cast<std::uint64_t>(std::stod(result.process.out.substr(start, end - start)) *
                                    static_cast<double>(kMiB));
}

class Invariants : public testing::TestWithParam<std::tuple<std::size_t, std::string>> {
 protected:
  static std::vector<Example> examples() {
    return {
        {{TRAIN_ADAM, "--layers", "2", "--width", "1024", "--batch", "2", "--steps", "3", "--verify", "0"},
         "state check-sum"},
        {{DECODE_KV, "--requests", "12", "--resident", "4", "--context", "1024", "--steps", "3"}, "cache check-sum"}};
  }
};

TEST_P(Invariants, BudgetIsKeptAndResultsAreBitIdentical) {
  const Example example = examples()[std::get<0>(GetParam())];
  SimulatedRun run;
  run.command = example.command;
  const SimulatedResult bare = run_simulated(run);
  ASSERT_EQ(bare.process.exit_code, 0) << bare;
  ASSERT_NE(bare.line(example.result), "") << bare;
  // What the driver takes beyond what the program asks for (its context, the rest of 2 MiB blocks) is in nobody's
  // budget.
  const std::uint64_t data = asked_for(bare);
  const std::uint64_t overhead = bare.resident_peak() - data;
  ASSERT_LE(overhead, data / 5) << bare;
  run.mode = std::get<1>(GetParam());
  for (const std::uint64_t share : {25U, 50U, 80U}) {
    const std::uint64_t budget = (data * share / 100 + kMiB - 1) / kMiB;
    run.budget = std::to_string(budget) + "MiB";
    const SimulatedResult result = run_simulated(run);
    SCOPED_TRACE(testing::Message() << run << "\n" << result);
    ASSERT_EQ(result.process.exit_code, 0);
    EXPECT_EQ(result.line(example.result), bare.line(example.result));
    EXPECT_EQ(result.count("driver_evictions"), 0U);
    EXPECT_LE(result.resident_peak(), budget * kMiB + overhead);
    EXPECT_EQ(result.leaks(), bare.leaks());
    EXPECT_GT(result.calls("cuMemAllocManaged"), 0U) << "nothing spills: this test shows nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, Invariants,
                         testing::Combine(testing::Values(0U, 1U), testing::ValuesIn(all_modes())),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) == 0 ? "train_" : "decode_") +
                                  std::get<1>(test.param);
                         });

}  // namespace
}  // namespace spillway::tests
