// "Policy is a pure function of events and settings": a real run's trace, with its threads, timing and moves, is given
// event by event to a fresh engine, which must decide exactly what was decided live, in order, with the same causes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "policy/engine.hpp"
#include "policy/settings.hpp"
#include "policy/trace/trace_reader.hpp"
#include "tests/support/process.hpp"
#include "tools/trace_source.hpp"

namespace spillway {
namespace {

struct LiveRun {
  policy::Settings settings;
  std::vector<policy::Event> events;
  std::vector<policy::Decision> decisions;
  std::string state;
};

LiveRun record(const std::string& mode, const std::vector<std::string>& program, const std::string& probes = "off") {
  LiveRun run;
  const std::string trace =
      std::filesystem::temp_directory_path() / ("replay_identity." + std::to_string(::getpid()) + "." + mode + ".swt");
  std::filesystem::remove(trace);
  std::vector<std::string> command{SPILLWAY_COMMAND, "run",  "--simulated", "--mode", mode,
                                   "--probes",       probes, "--trace",     trace,    "--"};
  command.insert(command.end(), program.begin(), program.end());
  tests::ProcessOptions options;
  options.environment["SPILLWAY_SIMULATED_MEMORY"] = "64MiB";
  const tests::ProcessResult result = tests::run_process(command, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto problem = tools::read_trace(
      trace,
      [&](const policy::trace::Record& read) {
        if (read.kind == policy::trace::RecordKind::event) run.events.push_back(read.event);
        if (read.kind == policy::trace::RecordKind::decision) run.decisions.push_back(read.decision);
      },
      [&](const policy::trace::TraceReader& reader) {
        run.state = tools::completeness(reader);
        for (const auto& [key, value] : reader.header().settings) {
          if (value.empty()) continue;  // not set
          const auto wrong = policy::set_setting(run.settings, key, value, key);
          EXPECT_FALSE(wrong) << wrong->sentence();
        }
      });
  EXPECT_FALSE(problem) << *problem;
  std::filesystem::remove(trace);
  return run;
}

class ReplayIdentity : public ::testing::TestWithParam<const char*> {
 protected:
  static void decides_the_same(const LiveRun& run) {
    EXPECT_EQ(run.state, "whole");
    policy::Engine engine(run.settings);
    std::vector<policy::Decision> again;
    for (const policy::Event& event : run.events) {
      engine.process(event, again);
      ASSERT_EQ(engine.check_invariants(), "");
    }
    ASSERT_EQ(again.size(), run.decisions.size());
    for (std::size_t i = 0; i < again.size(); ++i) ASSERT_EQ(again[i], run.decisions[i]) << "decision " << i;
    EXPECT_EQ(engine.ignored_events(), 0U);
    // A run in which nothing had to be decided would prove nothing.
    EXPECT_GT(std::count_if(again.begin(), again.end(),
                            [](const policy::Decision& decision) {
                              return std::holds_alternative<policy::MoveRange>(decision.body);
                            }),
              0);
  }
};

TEST_P(ReplayIdentity, Training) {
  decides_the_same(record(GetParam(), {TRAIN_ADAM, "--layers", "12", "--width", "1024", "--steps", "3"}));
}
TEST_P(ReplayIdentity, Decoding) {
  decides_the_same(
      record(GetParam(), {DECODE_KV, "--requests", "96", "--resident", "8", "--context", "512", "--steps", "4"}));
}

// With probes that were set, used and mapped again, and exchanges that follow from them.
class ReplayIdentityOfSparseRanges : public ReplayIdentity {};

TEST_F(ReplayIdentityOfSparseRanges, Decoding) {
  const LiveRun run =
      record("adaptive",
             {DECODE_KV, "--requests", "24", "--resident", "4", "--context", "512", "--heads", "16", "--layers", "1",
              "--vocabulary", "256", "--steps", "120", "--quantum", "120", "--check", "0"},
             "auto");
  const auto used = std::count_if(run.events.begin(), run.events.end(), [](const policy::Event& event) {
    const auto* pages = std::get_if<policy::PagesObserved>(&event.body);
    return pages != nullptr && pages->traffic == policy::PageTraffic::remote_map;
  });
  EXPECT_GT(used, 0) << "this run shows nothing";
  decides_the_same(run);
}

INSTANTIATE_TEST_SUITE_P(Modes, ReplayIdentity, ::testing::Values("demand", "alloc_prefetch", "arrival", "adaptive"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace spillway
