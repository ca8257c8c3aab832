// What every program counts on is missing, or happens at a bad time: the program does what it would do without us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace spillway::tests
