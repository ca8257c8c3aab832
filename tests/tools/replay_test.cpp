#include "tools/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/workloads.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;

TraceEvents trace() {
  policy::testing::Workload work = policy::testing::mlp_adam(12, policy::Bytes(std::uint64_t{16} << 20), 40);
  TraceEvents events;
  events.launches = work.iteration_ends.back().value;
  events.events = std::move(work.events);
  events.state = "whole";
  return events;
}

std::vector<NamedReplay> replays(const TraceEvents& events) {
  std::vector<NamedPolicy> policies(3);
  EXPECT_FALSE(load_policy("adaptive", policies[0]));
  EXPECT_FALSE(load_policy("arrival", policies[1]));
  EXPECT_FALSE(load_policy("demand", policies[2]));
  ReplayRequest request;
  request.budget = policy::SizeOrShare{policy::Bytes(std::uint64_t{400} << 20)};
  return replay_all(events, policies, request);
}

TEST(Replay, ARecordedRunIsPricedUnderOtherPoliciesFromItsPointersAlone) {
  const TraceEvents events = trace();
  const auto all = replays(events);
  const auto seconds = [&](std::size_t i) { return all[i].result.measured.seconds; };
  EXPECT_LT(seconds(0), seconds(1));
  EXPECT_LT(seconds(1), seconds(2));
  EXPECT_GE(all[0].result.measured.model.crossed(), all[0].result.bounds.traffic);
  EXPECT_LE(all[0].result.resident_peak, policy::Bytes(std::uint64_t{400} << 20));
  EXPECT_NEAR(iterations(all[0].result), 20, 1.5);
}

TEST(Replay, TableAndJsonShowEveryPolicyAndTheBounds) {
  const TraceEvents events = trace();
  const auto all = replays(events);
  const std::string text = replay_text(events, all);
  for (const char* word : {"adaptive", "arrival", "demand", "of bound", "bounds: no policy can"})
    EXPECT_THAT(text, HasSubstr(word));
  const auto json = replay_json(events, all);
  ASSERT_EQ(json["replays"].size(), 3u);
  EXPECT_EQ(json["replays"][1]["policy"], "arrival");
  EXPECT_GT(json["replays"][2]["measured"]["faulted_bytes"], 0);
  EXPECT_EQ(json["replays"][0]["bounds"]["traffic_bytes"], json["replays"][1]["bounds"]["traffic_bytes"]);
}

TEST(Replay, APolicyThatIsNeitherFileNorModeIsNamed) {
  NamedPolicy policy;
  const auto problem = load_policy("adaptiv", policy);
  ASSERT_TRUE(problem);
  EXPECT_THAT(*problem, HasSubstr("'adaptiv' is neither a policy file"));
  EXPECT_THAT(*problem, HasSubstr("alloc_prefetch"));
}

}  // namespace
}  // namespace spillway::tools
