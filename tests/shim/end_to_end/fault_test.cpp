// Each driver call failing in turn, during both examples: the program ends with right results, or with the driver's own
// code as the clean error it would be without us; never by a signal, never not at all.
#include <gtest/gtest.h>

#include <set>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

constexpr int kOutOfMemory = 2;
constexpr int kUnknown = 999;

struct Program {
  const char* name;
  std::vector<std::string> command;
  std::string budget;     // about half of what it allocates
  std::string check_sum;  // begins the line that has it
};

const std::vector<Program>& programs() {
  static const std::vector<Program> all{
      {"train",
       {TRAIN_ADAM, "--layers", "2", "--width", "768", "--batch", "2", "--steps", "2", "--verify", "0"},
       "14MiB",
       "state check-sum"},
      {"decode",
       {DECODE_KV, "--requests", "12", "--resident", "4", "--context", "128", "--steps", "3"},
       "12MiB",
       "cache check-sum"}};
  return all;
}

// Allocating calls fail for want of memory, all others for a reason that nobody expects.
int code_for(const std::string& symbol) {
  return symbol.find("Alloc") != std::string::npos || symbol.find("Create") != std::string::npos ? kOutOfMemory
                                                                                                 : kUnknown;
}

class Faults : public testing::TestWithParam<std::tuple<std::size_t, const char*>> {
 protected:
  const Program& program_ = programs()[std::get<0>(GetParam())];

  SimulatedRun with(const std::string& faults) const {
    SimulatedRun run;
    run.command = program_.command;
    run.mode = std::get<1>(GetParam());
    run.budget = program_.budget;
    run.faults = faults;
    run.environment["SPILLWAY_LOG_LEVEL"] = "error";
    return run;
  }

  void expect_good_end(const SimulatedRun& run, const SimulatedResult& result, const SimulatedResult& bare,
                       const std::string& symbol) {
    SCOPED_TRACE(testing::Message() << run << "\n" << result);
    ASSERT_FALSE(result.hung());
    ASSERT_EQ(result.process.signal, 0);
    ASSERT_TRUE(result.process.exit_code == 0 || result.process.exit_code == 1);
    if (symbol == "cuInit" && result.process.exit_code == 1) return;  // no device, no report
    ASSERT_TRUE(result.report.is_object());
    EXPECT_EQ(result.count("driver_evictions"), 0U);
    const bool a_free_failed = symbol.find("Free") != std::string::npos;
    if (result.process.exit_code == 0) {
      EXPECT_EQ(result.line(program_.check_sum), bare.line(program_.check_sum));
      EXPECT_LE(result.leaks(), bare.leaks() + (a_free_failed ? 1U : 0U));
    } else {
      EXPECT_FALSE(result.process.err.empty()) << "an error without a word";
      // An exit in mid-run leaves what the program holds, and nothing else.
      EXPECT_LE(result.leaks(), bare.count("allocations"));
    }
    // What the program never calls is ours: it must not feel that. Only memory that is not there is not there.
    if (bare.calls(symbol) == 0 && symbol != "cuMemAllocManaged") {
      EXPECT_EQ(result.process.exit_code, 0) << symbol << " is called by us only";
    }
  }
};

// All calls of the run in the mode that people use; in the others what only we call, and what makes memory.
TEST_P(Faults, EveryCallInTurn) {
  SimulatedRun bare_run = with("");
  bare_run.mode.clear();
  const SimulatedResult bare = run_simulated(bare_run);
  ASSERT_EQ(bare.process.exit_code, 0) << bare;
  ASSERT_NE(bare.line(program_.check_sum), "") << bare;
  const SimulatedResult clean = run_simulated(with(""));
  ASSERT_EQ(clean.process.exit_code, 0) << clean;
  ASSERT_GT(clean.calls("cuMemAllocManaged"), 0U) << "nothing spills: this test shows nothing";
  const bool all = std::get<1>(GetParam()) == std::string("adaptive");
  for (const auto& [symbol, calls] : clean.report.at("calls").items()) {
    if (!all && bare.calls(symbol) != 0) continue;
    const std::set<std::uint64_t> numbers{1, calls.get<std::uint64_t>() / 2 + 1};
    for (const std::uint64_t number : numbers) {
      const std::string fault = symbol + ":" + std::to_string(number) + ":" + std::to_string(code_for(symbol));
      const SimulatedRun run = with(fault);
      expect_good_end(run, run_simulated(run), bare, symbol);
    }
  }
}

// Our own calls, never working, for want of memory or another reason.
TEST_P(Faults, OurOwnCallsNeverWork) {
  SimulatedRun bare_run = with("");
  bare_run.mode.clear();
  const SimulatedResult bare = run_simulated(bare_run);
  for (const std::string symbol : {"cuMemPrefetchAsync_v2", "cuMemAdvise_v2", "cuMemAllocManaged", "cuCtxCreate_v2",
                                   "cuStreamCreate", "cuThreadExchangeStreamCaptureMode", "cuMemGetInfo_v2"}) {
    const SimulatedRun run = with(symbol + ":*:" + std::to_string(code_for(symbol)));
    expect_good_end(run, run_simulated(run), bare, symbol);
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, Faults,
                         testing::Combine(testing::Values(0U, 1U), testing::Values("demand", "arrival", "adaptive")),
                         [](const auto& test) {
                           return std::string(programs()[std::get<0>(test.param)].name) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace spillway::tests
