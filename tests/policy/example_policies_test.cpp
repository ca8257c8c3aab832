// The files under examples/policies/, the mistakes of the fuzzer's corpus, and the page in docs/, as they are
// committed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "policy/policy_file.hpp"
#include "policy/policy_file_writer.hpp"
#include "policy/policy_reference.hpp"
#include "policy/replay.hpp"
#include "tests/policy/workloads.hpp"

namespace spillway::policy {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(ExamplePolicies, HaveNoMistakesAndSurviveBeingWrittenAgain) {
  std::vector<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(SPILLWAY_EXAMPLE_POLICIES)) {
    const std::string name = entry.path().filename().string();
    seen.push_back(name);
    const PolicyFileReading reading = read_policy_file(read(entry.path()), name);
    for (const PolicyMistake& mistake : reading.mistakes) ADD_FAILURE() << mistake.sentence();
    EXPECT_FALSE(reading.file.rules.empty()) << name;
    EXPECT_NE(reading.file.settings, Settings()) << name;
    EXPECT_FALSE(reading.file.settings.oom_first) << name << " ends a program that does not ask again";
    const PolicyFileReading again = read_policy_file(write_policy_file(reading.file, {}), name);
    EXPECT_EQ(again.file, reading.file) << name;
  }
  EXPECT_THAT(seen,
              ::testing::UnorderedElementsAre("training.toml", "inference.toml", "kv_cache.toml", "leave_alone.toml"));
}

// What the rules say, `adaptive` finds by itself here: they send out no more than it does.
TEST(ExamplePolicies, TrainingIsNoSlowerThanWithoutOne) {
  testing::GptOptions gpt;
  gpt.adam = testing::Adam::fused;
  const testing::Workload work = testing::GptTraining(gpt).run();
  const std::vector<Rule> rules =
      read_policy_file(read(std::filesystem::path(SPILLWAY_EXAMPLE_POLICIES) / "training.toml"), "training.toml")
          .file.rules;
  ASSERT_FALSE(rules.empty());
  ReplayOptions options;
  options.bounds = ReplayOptions::WithBounds::no;
  options.measure_after = work.iteration_ends[work.iteration_ends.size() / 2];
  PolicyFile without;
  without.settings.device_budget = SizeOrShare{Bytes(work.peak.count() * 85 / 100)};
  const ReplayFigures learned = replay(work.events, without, work.costs, {}, options).measured;
  const ReplayFigures told = replay(work.events, {without.settings, rules}, work.costs, {}, options).measured;
  EXPECT_GT(learned.model.remote_read, 0) << "all of it fits";
  EXPECT_LT(told.seconds, 1.03 * learned.seconds);
}

TEST(PolicyReference, IsTheCommittedPage) {
  EXPECT_EQ(policy_reference(), read(SPILLWAY_POLICY_REFERENCE))
      << "write it anew: spillway check --reference > docs/policy_reference.md";
}

}  // namespace
}  // namespace spillway::policy
