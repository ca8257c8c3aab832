// `spillway doctor -- program` on the simulated device: programs that allocate in every way, and some that cannot be
// served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ProcessResult doctor(const std::vector<std::string>& words) {
  return run_on_simulated("doctor", words,
                          {{"SPILLWAY_SIMULATED_KERNELS", TEST_TWINS ":" SPILLWAY_TWINS},
                           // Of the user's other runs: neither may have a say.
                           {"SPILLWAY_DEVICE_BUDGET", "4MiB"},
                           {"SPILLWAY_TRACE_PATH", "/nowhere/at/all.swt"}});
}

nlohmann::json examined(std::vector<std::string> program, int code = 0) {
  program.insert(program.begin(), {"--json", "--"});
  const ProcessResult result = doctor(program);
  EXPECT_EQ(result.exit_code, code) << result.out << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

std::string advice_of(const nlohmann::json& report) {
  std::string text;
  for (const auto& advice : report["advice"])
    text += advice["setting"].get<std::string>() + ": " + advice["why"].get<std::string>() + "\n";
  return text;
}

TEST(DoctorOfAProgram, ATrainingRunOnTheSharedRuntimeCanBeServed) {
  const auto report = examined({TRAIN_ADAM, "--layers", "2", "--width", "1024", "--batch", "16", "--steps", "2"});
  ASSERT_TRUE(report.is_object());
  EXPECT_TRUE(report["servable"]) << report.dump(1);
  EXPECT_EQ(report["ended"], "ended with exit code 0");
  EXPECT_EQ(report["processes"], 1);
  EXPECT_GT(report["launches"], 20);
  EXPECT_EQ(report["graph_launches"], 0);
  EXPECT_FALSE(report["ran_out_of_memory"]);
  EXPECT_THAT(report["runtimes"], Contains(StartsWith("shared (libcudart.so.13")));
  const auto& device = report["devices"][0];
  EXPECT_TRUE(device["memory"]["large"]["spills"]);
  EXPECT_FALSE(device["memory"]["small"]["spills"]);
  const std::uint64_t large = device["memory"]["large"]["most_bytes"];
  const std::uint64_t small = device["memory"]["small"]["most_bytes"];
  EXPECT_GE(large, 8 * kMiB);
  EXPECT_LE(device["most_bytes"], large + small);
  EXPECT_EQ(device["most_bytes_that_cannot_spill"], small);
  EXPECT_THAT(advice_of(report), AllOf(HasSubstr("(no --device-budget): what was seen fits"),
                                       HasSubstr(" in blocks of 2 MiB, Spillway's own context takes up to 4 MiB, and "
                                                 "moves want 8 MiB\n")));
}

TEST(DoctorOfAProgram, EveryWayOfAskingForMemoryIsNamed) {
  const auto pools = examined({GUEST_PROBE, "pools_order"});
  EXPECT_TRUE(pools["devices"][0]["memory"]["pools"]["spills"]) << pools.dump(1);
  EXPECT_THAT(advice_of(pools), HasSubstr("memory.spill_pools: leave it at auto"));
  EXPECT_THAT(pools["runtimes"], Contains(AllOf(StartsWith("none: "), EndsWith("calls the driver"))));
  const auto mapped = examined({GUEST_PROBE, "mapped_then_small"});
  EXPECT_EQ(mapped["devices"][0]["memory"]["mapped"]["most_bytes"], 48 * kMiB) << mapped.dump(1);
  EXPECT_EQ(mapped["devices"][0]["most_bytes_that_cannot_spill"], 8);
  EXPECT_THAT(advice_of(mapped), HasSubstr("memory.spill_vmm: leave it at auto"));
  const auto own = examined({GUEST_PROBE, "hints"}, 1);
  EXPECT_FALSE(own["devices"][0]["memory"]["managed"]["spills"]) << own.dump(1);
  EXPECT_THAT(advice_of(own), HasSubstr("managed memory of the program's own is not counted"));
  const auto shared = examined({GUEST_PROBE, "imports_ipc"});
  EXPECT_EQ(shared["processes"], 2) << shared.dump(1);
  EXPECT_EQ(shared["devices"][0]["memory"]["imported"]["bytes"], 8 * kMiB);
  EXPECT_THAT(shared["driver_calls"], Contains("cuIpcGetMemHandle"));
  EXPECT_THAT(advice_of(shared), HasSubstr("backing = \"device\": in a rule for what it shares by CUDA IPC"));
  const auto graphs = examined({GUEST_PROBE, "capture"});
  EXPECT_EQ(graphs["graph_launches"], 3) << graphs.dump(1);
  EXPECT_THAT(advice_of(graphs), HasSubstr("a graphed loop is learned within a dozen replays"));
}

TEST(DoctorOfAProgram, OneThatRunsOutOfMemoryIsToldTheDefaultBudget) {
  const auto report = examined({GUEST_PROBE, "out_of_memory"});
  EXPECT_TRUE(report["ran_out_of_memory"]) << report.dump(1);
  EXPECT_THAT(advice_of(report), HasSubstr("(no --device-budget): the driver refused "));
}

// On a card that its first large request does not fit, so that it ends at once.
TEST(DoctorOfAProgram, OneThatEndsAtItsFirstLargeRequestIsToldThatItWouldSpill) {
  const ProcessResult result = run_process(
      {SPILLWAY_COMMAND, "doctor", "--simulated", "--json", "--", TRAIN_ADAM, "--layers", "1", "--width", "4096",
       "--batch", "8", "--steps", "1"},
      in_environment({{"SPILLWAY_SIMULATED_KERNELS", SPILLWAY_TWINS}, {"SPILLWAY_SIMULATED_MEMORY", "32MiB"}}));
  const auto report = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_EQ(result.exit_code, 0) << report.dump(1);
  EXPECT_EQ(report["ended"], "ended with exit code 1") << report.dump(1);
  EXPECT_THAT(report["verdict"].get<std::string>(),
              StartsWith("It ran out of device memory where Spillway would have"));
  EXPECT_EQ(report["devices"][0]["refused"]["memory"], "large");
  EXPECT_EQ(report["devices"][0]["refused"]["bytes"], 64 * kMiB) << report.dump(1);
  EXPECT_THAT(
      advice_of(report),
      HasSubstr("(no --device-budget): the driver refused 64 MiB (cudaMalloc, 2 MiB and more) beside 384 KiB in "
                "use: under spillway run that spills"));
  EXPECT_THAT(advice_of(report), Not(HasSubstr("nothing of what was seen can spill")));
}

const std::vector<std::string> kDecoder = {DECODE_KV,   "--requests", "96",      "--resident", "8",
                                           "--context", "512",        "--steps", "2"};

nlohmann::json decoder_examined(const std::string& memory) {
  std::vector<std::string> command = {SPILLWAY_COMMAND, "doctor", "--simulated", "--json", "--"};
  command.insert(command.end(), kDecoder.begin(), kDecoder.end());
  const ProcessResult result = run_process(
      command, in_environment({{"SPILLWAY_SIMULATED_KERNELS", SPILLWAY_TWINS}, {"SPILLWAY_SIMULATED_MEMORY", memory}}));
  return nlohmann::json::parse(result.out, nullptr, false);
}

// Many small allocations, which take whole blocks of the card: what they ask for is no bound.
TEST(DoctorOfAProgram, TheLeastBudgetCountsPlainMemoryInBlocksAndIsEnough) {
  const auto report = decoder_examined("256MiB");
  EXPECT_FALSE(report["ran_out_of_memory"]) << report.dump(1);
  const auto& device = report["devices"][0];
  const std::uint64_t plain = device["plain_peak_bytes"];
  EXPECT_GE(plain, device["most_bytes_that_cannot_spill"].get<std::uint64_t>() + 2 * kMiB) << device.dump(1);
  EXPECT_EQ(plain % (2 * kMiB), 0U) << device.dump(1);
  const std::uint64_t context = 8, moves = 16;  // MiB of 256
  EXPECT_THAT(advice_of(report),
              AllOf(HasSubstr("not below " + std::to_string(plain / kMiB + context + moves) + " MiB: "),
                    HasSubstr(" cannot spill and may take " + std::to_string(plain / kMiB) + " MiB in blocks of 2 MiB"),
                    Not(HasSubstr("ran out of memory"))));
  // With a place for one chunk that moves, it is served.
  SimulatedRun run;
  run.command = kDecoder;
  run.mode = "adaptive";
  run.budget = std::to_string(plain / kMiB + context + 2) + "MiB";
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = SPILLWAY_TWINS;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.exit_code, 0) << result;
  EXPECT_THAT(result.process.err, Not(AnyOf(HasSubstr("out of memory"), HasSubstr("has no room")))) << result;
}

TEST(DoctorOfAProgram, TheLeastBudgetOfOneThatRanOutOfMemoryIsSaidToBeOfWhatWasSeen) {
  const auto report = decoder_examined("64MiB");
  EXPECT_TRUE(report["ran_out_of_memory"]) << report.dump(1);
  EXPECT_THAT(advice_of(report),
              HasSubstr(", and moves want 4 MiB; that is of what was seen when the program ran out of memory: what it "
                        "asks for later may need more\n"));
}

TEST(DoctorOfAProgram, OneThatGoesOnIsEndedAtTheLimit) {
  const ProcessResult result =
      doctor({"--time-limit", "2", "--", "sh", "-c", std::string(GUEST_PROBE) + " launches; sleep 600"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr(": stopped after 2 s (--time-limit)\n"));
  EXPECT_THAT(result.out, EndsWith("\nThis program can be served.\n"));
}

TEST(DoctorOfAProgram, OneThatTheLimitEndsTooEarlyIsToldToBeGivenMore) {
  const std::string sleeps = "sleep 600; " + std::string(GUEST_PROBE) + " launches";
  const ProcessResult before = doctor({"--time-limit", "2", "--json", "--", "sh", "-c", sleeps});
  EXPECT_EQ(before.exit_code, 1) << before.err;
  const auto report = nlohmann::json::parse(before.out, nullptr, false);
  EXPECT_EQ(report["stopped"], true);
  EXPECT_EQ(report["verdict"], "The time limit ended it before its first CUDA call; give a longer --time-limit.");
  const ProcessResult small =
      doctor({"--time-limit", "5", "--json", "--", "sh", "-c", std::string(GUEST_PROBE) + " hints; sleep 600"});
  EXPECT_EQ(small.exit_code, 1) << small.err;
  const auto seen = nlohmann::json::parse(small.out, nullptr, false);
  EXPECT_EQ(
      seen["verdict"],
      "Nothing of what was seen can spill, but the time limit ended it: give a longer --time-limit if it asks for "
      "large memory later.");
  EXPECT_THAT(advice_of(seen), HasSubstr("nothing of what was seen before the time limit can spill"));
  EXPECT_THAT(advice_of(seen), Not(HasSubstr("Spillway is of no use here")));
}

TEST(DoctorOfAProgram, WhatItPrintsGoesToStandardErrorAndTheReportIsAPage) {
  const ProcessResult result = doctor({GUEST_PROBE, "launches"});
  EXPECT_THAT(result.err, HasSubstr("end\n"));
  EXPECT_EQ(result.out.find("end\n"), std::string::npos);
  for (const char* part : {"CUDA runtime   none: ", "processes      1\n", "launches       ",
                           "device 0 (Spillway simulated device 0, 128 MiB): at most ", "cudaMalloc, 2 MiB and more",
                           "spills, and moves both ways", "\nWhat to use\n"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

TEST(DoctorOfAProgram, WhatCannotBeServedIsSaid) {
  const auto none = examined({"true"}, 1);
  EXPECT_FALSE(none["servable"]);
  EXPECT_THAT(none["verdict"].get<std::string>(), StartsWith("No CUDA call was seen"));
  const auto fails = examined({"sh", "-c", std::string(GUEST_PROBE) + " launches; exit 3"}, 1);
  EXPECT_EQ(fails["ended"], "ended with exit code 3");
  EXPECT_THAT(fails["verdict"].get<std::string>(), HasSubstr("Each of its kernels needs a host twin there"));
  EXPECT_GT(fails["launches"], 0);
  const auto crashes = examined({GUEST_PROBE, "ends", "abort"}, 1);
  EXPECT_EQ(crashes["ended"], "ended by signal SIGABRT") << crashes.dump(1);
  EXPECT_GT(crashes["launches"], 0) << "what it did before is in the report";
  const ProcessResult missing = doctor({"--", "/no/such/program"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.err, HasSubstr("cannot run /no/such/program"));
  const ProcessResult linked = doctor({"--", DECODE_KV_STATIC});
  EXPECT_EQ(linked.exit_code, 2);
  EXPECT_THAT(linked.err, HasSubstr("linked into it statically"));
}

TEST(DoctorOfAProgram, ADeviceWithoutConcurrentManagedAccessIsNamed) {
  const ProcessResult result =
      run_on_simulated("doctor", {"--", GUEST_PROBE, "launches"},
                       {{"SPILLWAY_SIMULATED_KERNELS", TEST_TWINS}, {"SPILLWAY_SIMULATED_NO_MANAGED", "1"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("it has no concurrent managed access, so nothing spills there"));
}

TEST(DoctorOfTheMachine, ASimulatedDeviceNeedsNoNode) {
  const ProcessResult result = run_process({SPILLWAY_COMMAND, "doctor", "--json"},
                                           in_environment({{"LD_LIBRARY_PATH", SPILLWAY_SIMULATED_FOLDER}}));
  const auto report = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << result.out;
  EXPECT_TRUE(report["servable"]) << report.dump(1);
  EXPECT_EQ(result.out.find("UVM"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace spillway::tests
