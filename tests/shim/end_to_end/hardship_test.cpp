// What every program counts on is missing, or happens at a bad time: the program does what it would do without us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SimulatedRun hardship(const std::vector<std::string>& command, const std::string& mode = "adaptive") {
  SimulatedRun run;
  run.command = command;
  run.mode = mode;
  run.budget = mode.empty() ? "" : "24MiB";
  run.memory = "64MiB";
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  return run;
}

// The probe behind a line of shell, which sees it as $0.
std::vector<std::string> shell(const std::string& line) { return {"sh", "-c", line, GUEST_PROBE}; }

TEST(Hardship, AStartWithoutMemoryLeavesTheProgramAsItIs) {
  // Enough for the program, too little for a session.
  const std::vector<std::string> command = shell("ulimit -d 8000; exec \"$0\" null_outputs");
  const SimulatedResult bare = run_simulated(hardship(command, ""));
  const SimulatedResult with = run_simulated(hardship(command));
  EXPECT_EQ(with.process.exit_code, 0) << with;
  EXPECT_EQ(with.process.out, bare.process.out) << with;
  EXPECT_THAT(with.process.err, HasSubstr("could not start"));
}

// What was counted for a question that has no answer is taken back, and its turn is given.
TEST(Hardship, AQuestionWithoutMemoryForItsBooksKeepsNoTurn) {
  for (const char* mode : {"demand", "alloc_prefetch"}) {
    const SimulatedResult result = run_simulated(hardship({GUEST_PROBE, "asks_without_memory"}, mode));
    EXPECT_THAT(result.process.out, Not(HasSubstr("failed"))) << result;
    EXPECT_EQ(result.line("MiB in use: "), "2") << "our own context: " << result;
    EXPECT_THAT(result.process.err, Not(HasSubstr("waited"))) << result;
    EXPECT_EQ(result.process.exit_code, 0) << result;
  }
}

// The page of `top` is a file for that limit, and who exceeds it is killed. 10 KiB; the stand-in driver writes a
// report.
TEST(Hardship, AProgramThatMayWriteNoFilesIsNotKilledForOurs) {
  const SimulatedResult result = run_simulated(hardship(shell("ulimit -f 20; exec \"$0\" null_outputs")));
  EXPECT_EQ(result.process.signal, 0) << result;
  EXPECT_EQ(result.process.exit_code, 0) << result;
}

TEST(Hardship, AReaderOfStandardErrorWhoHasGoneEndsNothing) {
  const SimulatedResult result = run_simulated(hardship({GUEST_PROBE, "reader_gone"}));
  EXPECT_EQ(result.process.signal, 0);
  EXPECT_EQ(result.process.out, "sum 18\n") << result;
}

// Closed by the program, or before it began: the next file gets the number.
TEST(Hardship, ADataFileThatGotTheNumberOfStandardErrorIsNotWritten) {
  for (const char* scenario : {"error_reused", "error_closed"}) {
    const Scratch folder;
    const std::string data = (folder.path() / "data").string();
    const SimulatedResult result = run_simulated(hardship({GUEST_PROBE, scenario, data}));
    EXPECT_EQ(result.process.out, "its number: 2\nsum 12\n") << result;
    EXPECT_EQ(std::filesystem::file_size(data), 0U) << scenario;
  }
}

TEST(Hardship, AChildMadeWithoutForkHandlersExitsAndLeavesTheTraceAlone) {
  SimulatedRun run = hardship({GUEST_PROBE, "raw_forks"});
  run.traced = true;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "sum 18\nchild 5\nchild 5\nend\n") << result;
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  EXPECT_EQ(stats["whole"], true) << stats.dump(1);
}

TEST(Hardship, AForkedChildGetsTheDriversCodeHoweverTheFunctionsWereFound) {
  for (const bool looks_up : {false, true}) {
    SimulatedRun run = hardship({GUEST_PROBE, "forks_and_calls"});
    run.budget = "10MiB";
    if (looks_up) run.environment["PROBE_LOOKS_UP"] = "1";
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.out, "answered: 30\nend\n") << looks_up << result;
  }
}

TEST(Hardship, AConstructorThatWaitsForAnAllocatingThreadIsNotHeldUp) {
  for (const char* mode : {"demand", "adaptive"}) {
    SimulatedRun run = hardship({GUEST_PROBE, "loads_library", WAITING_LIBRARY}, mode);
    run.traced = true;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.out, "allocated by its thread: 0\nloaded: 1\n") << result;
  }
}

TEST(Hardship, AProgramWhoseThreadsHaveAllEndedEnds) {
  for (const char* mode : {"demand", "adaptive"}) {
    SimulatedRun run = hardship({GUEST_PROBE, "ends_by_threads"}, mode);
    run.traced = true;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    EXPECT_EQ(result.process.out, "alloc: 0\nfree: 0\nexit handler\n") << result;
    const auto stats = result.stats();
    ASSERT_TRUE(stats.is_object()) << result;
    EXPECT_EQ(stats["whole"], true) << stats.dump(1);
  }
}

// The last launch but one is beside a capture.
TEST(Hardship, CapturesEndWithTheirStreamsAndContexts) {
  for (const char* mode : {"demand", "adaptive"}) {
    SimulatedRun run = hardship({GUEST_PROBE, "captures_end_early"}, mode);
    run.environment["SPILLWAY_CUPTI"] = "off";
    run.environment["SPILLWAY_TELEMETRY_EVENTS"] = "off";
    const SimulatedResult result = run_simulated(run);
    const std::string launched = "launch: 0\nasked: 0\n";
    EXPECT_EQ(result.process.out, "begin: 0\ndestroy: 0\n" + launched + "begin: 0\ndestroy: 0\n" + launched +
                                      "begin: 0\nreset: 0\n" + launched + "begin: 0\nlaunch: 0\nasked: 1\nend: 0\n" +
                                      launched + "begin: 0\nend elsewhere: 908\nlaunch: 0\nasked: 1\nend: 0\n" +
                                      launched + "end\n")
        << result;
  }
}

// Our waits and lines would be points of cancellation where the driver has none.
TEST(Hardship, AThreadThatIsCancelledEndsAloneAndNotInTheMiddleOfOurs) {
  const SimulatedResult bare = run_simulated(hardship({GUEST_PROBE, "cancels_threads"}, ""));
  ASSERT_TRUE(bare.process.out.ends_with("\nend\n")) << bare;
  for (const std::string& mode : all_modes()) {
    const SimulatedResult with = run_simulated(hardship({GUEST_PROBE, "cancels_threads"}, mode));
    EXPECT_EQ(with.process.out, bare.process.out) << with;
    EXPECT_EQ(with.process.exit_code, 0) << with;
    EXPECT_EQ(with.leaks(), bare.leaks()) << with.report.dump(1);
  }
}

TEST(Hardship, AThreadThatIsCancelledInTheDriverKeepsNothingOfOurs) {
  struct Call {
    const char* symbol;
    const char* delay;  // beyond all limits where it is to end in the call
  };
  for (const auto& [symbol, delay] :
       {Call{"cuLaunchKernel", "600000ms"}, Call{"cuMemcpyDtoH_v2", "600000ms"}, Call{"cuMemFree_v2", "300ms"}}) {
    for (const std::string& mode : all_modes()) {
      SimulatedRun run = hardship({GUEST_PROBE, "cancels_in_the_driver", symbol}, "");
      run.faults = std::string(symbol) + ":1:delay=" + delay;
      run.environment["SPILLWAY_CUPTI"] = "off";  // the first call is the program's
      if (mode == "arrival") run.environment["PROBE_LOOKS_UP"] = "1";
      const SimulatedResult bare = run_simulated(run);
      run.mode = mode;
      run.budget = "24MiB";
      const SimulatedResult with = run_simulated(run);
      EXPECT_THAT(bare.process.out, ::testing::StartsWith("cancelled: 1\nvalue 3\n")) << bare;
      EXPECT_EQ(with.process.out, bare.process.out) << symbol << "\n" << with;
      EXPECT_EQ(with.process.exit_code, 0) << with;
      EXPECT_THAT(with.process.err, Not(HasSubstr("waited"))) << "for what the thread has kept";
    }
  }
}

TEST(Hardship, WhatIsCapturedOnTheThreadsOwnStreamDidNotRun) {
  for (const char* mode : {"demand", "adaptive"}) {
    SimulatedRun run = hardship({GUEST_PROBE, "captures_own_stream"}, mode);
    run.traced = true;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    const auto stats = result.stats();
    ASSERT_TRUE(stats.is_object()) << result;
    EXPECT_EQ(stats["launches"], 2) << stats.dump(1) << result;
  }
}

TEST(Hardship, AFolderForATraceIsRefusedAndTheLineSaysWhatToDo) {
  const Scratch folder;
  const std::filesystem::path place = folder.path() / "place";
  std::filesystem::create_directory(place);
  SimulatedRun run = hardship({GUEST_PROBE, "work", "3"});
  run.environment["SPILLWAY_TRACE_PATH"] = place.string();
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "sum 18\n") << result;
  EXPECT_THAT(result.process.err, HasSubstr(place.string() + " (Is a directory): name a file in it with --trace "
                                                             "(SPILLWAY_TRACE_PATH), such as"));
  EXPECT_FALSE(std::filesystem::exists(place.string() + ".1"));
  EXPECT_TRUE(std::filesystem::is_empty(place));
}

TEST(Hardship, ABudgetWithoutRoomForOurOwnContextServesAllTheSame) {
  SimulatedRun run = hardship({GUEST_PROBE, "work", "3"});
  run.budget = "3MiB";
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "sum 18\n") << result;
  EXPECT_THAT(result.process.err, HasSubstr("the budget of 3 MiB has no room for Spillway's own context"));
  EXPECT_THAT(result.process.err,
              HasSubstr("; it takes a memory.device_budget (--device-budget) of at least 4 MiB, and more "
                        "if more comes that cannot leave\n"));
  // And no more comes.
  run.budget = "4MiB";
  const SimulatedResult least = run_simulated(run);
  EXPECT_EQ(least.process.out, "sum 18\n") << least;
  EXPECT_THAT(least.process.err, Not(HasSubstr("has no room")));
}

TEST(Hardship, AContextThatTheDriverRefusesLeavesWhatSpillsOnTheHost) {
  SimulatedRun run = hardship({GUEST_PROBE, "work", "3"});
  run.budget = "24MiB";
  run.faults = "cuCtxCreate_v2:2:2";  // the first is the program's
  run.traced = true;
  const SimulatedResult result = run_simulated(run);
  EXPECT_EQ(result.process.out, "sum 18\n") << result;
  EXPECT_THAT(result.process.err,
              HasSubstr("device 0: the driver refused a context for moves (CUDA_ERROR_OUT_OF_MEMORY): "
                        "what spills stays on the host"));
  EXPECT_THAT(result.process.err, Not(HasSubstr("refused to move")));
  const auto stats = result.stats();
  ASSERT_TRUE(stats.is_object()) << result;
  EXPECT_GT(stats["devices"][0]["on_host_peak"], 0) << stats.dump(1);
  EXPECT_EQ(stats["devices"][0]["resident_peak"], 0) << stats.dump(1);
}

TEST(Hardship, WithoutAFileDescriptorTheProgramRunsAndTheReasonIsTheTrueOne) {
  SimulatedRun run = hardship({GUEST_PROBE, "without_descriptors"});
  run.budget = "48MiB";
  run.environment.erase("SPILLWAY_SIMULATED_KERNELS");  // a file
  const SimulatedResult result = run_simulated(run);
  SimulatedRun bare = run;
  bare.mode = bare.budget = "";
  bare.memory = "256MiB";  // room for what spills in the other run
  EXPECT_EQ(result.process.out, run_simulated(bare).process.out) << result;
  EXPECT_THAT(result.process.err,
              HasSubstr("/proc/meminfo cannot be read (Too many open files), so the host memory that "
                        "may be used is "));
  EXPECT_THAT(result.process.err, HasSubstr("raise the limit on open files (ulimit -n), or set memory.host_budget"));
  EXPECT_THAT(result.process.err, Not(HasSubstr("is not there")));
  EXPECT_THAT(result.process.err, Not(HasSubstr("/costs-"))) << "of a file that does not exist";
}

// train_adam asks through the shared runtime; by the return address alone all its memory would be the runtime's.
TEST(Hardship, TheCallerIsWhoCalledTheSharedRuntime) {
  const Scratch folder;
  const std::string policy = (folder.path() / "policy.toml").string();
  const auto managed = [&](const std::string& caller) {
    std::ofstream(policy) << "[[rule]]\nname = \"plain\"\nmatch = { caller = \"" << caller
                          << "\" }\nbacking = \"device\"\n";
    SimulatedRun run;
    run.command = {TRAIN_ADAM, "--layers", "2", "--width", "768", "--batch", "2", "--steps", "2", "--verify", "0"};
    run.mode = "arrival";
    run.budget = "100MiB";
    run.traced = true;
    run.environment["SPILLWAY_POLICY"] = policy;
    const SimulatedResult result = run_simulated(run);
    EXPECT_EQ(result.process.exit_code, 0) << result;
    // `stats` names the file and the device.
    const std::string page = run_process({SPILLWAY_COMMAND, "stats", result.traces().front().string()}).out;
    EXPECT_THAT(page, HasSubstr("policy.file = " + policy));
    EXPECT_THAT(page, HasSubstr("device        simulated: "));
    return result.calls("cuMemAllocManaged");
  };
  EXPECT_EQ(managed("*train_adam"), 0U);
  EXPECT_GT(managed("*libcudart*"), 0U);
}

TEST(Hardship, DebugSaysWhatPolicyNotesAndInfoDoesNot) {
  SimulatedRun run = hardship({GUEST_PROBE, "work", "400"});
  run.environment["SPILLWAY_LOG_LEVEL"] = "debug";
  const std::string debug = run_simulated(run).process.err;
  EXPECT_THAT(debug, HasSubstr("debug: driver found; prefetch and advice take CUmemLocation"));
  EXPECT_THAT(debug, HasSubstr("debug: device 0: our own context takes 2 MiB of its memory"));
  EXPECT_THAT(debug, HasSubstr("debug: policy: an iteration of 6 launches was found"));
  run.environment["SPILLWAY_LOG_LEVEL"] = "info";
  EXPECT_THAT(run_simulated(run).process.err, Not(HasSubstr("debug")));
}

TEST(Hardship, KernelsAreAskedAboutAnewAfterAContextHasEnded) {
  const SimulatedResult result = run_simulated(hardship({GUEST_PROBE, "ends_contexts"}));
  EXPECT_EQ(result.process.exit_code, 0) << result;
  EXPECT_EQ(result.calls("cuFuncGetName"), 3U) << result;
}

}  // namespace
}  // namespace spillway::tests
