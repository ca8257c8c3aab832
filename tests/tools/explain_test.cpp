// `spillway stats --explain`: the story of one allocation.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "policy/explain.hpp"
#include "tests/support/sample_trace.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;
using ExplainTest = TraceCommandTest;

TEST_F(ExplainTest, StoryIsTheGoldenOne) {
  put("run.swt", tests::training_trace());
  const auto result = spillway({"stats", "run.swt", "--explain", "3"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  expect_golden("explain.txt", result.out);
}

TEST_F(ExplainTest, JsonHasTheFigures) {
  put("run.swt", tests::training_trace());
  const auto json = nlohmann::json::parse(spillway({"stats", "run.swt", "--explain", "2", "--json"}).out);
  constexpr std::uint64_t kMiB = 1U << 20U;
  EXPECT_EQ(json["bytes"], 16 * kMiB);
  EXPECT_EQ(json["launches"], 80) << "adam, four times in each of 20 iterations";
  EXPECT_EQ(json["moves"], 33) << "to the host, then in and out in 16 iterations";
  EXPECT_EQ(json["moved_in"], 64 * kMiB);
  EXPECT_EQ(json["moved_out"], 64 * kMiB);
  EXPECT_EQ(json["refetched"], 60 * kMiB) << "all but the first time";
  EXPECT_EQ(json["useless"], 0) << "adam uses what comes in";
  EXPECT_EQ(json["classes"][0]["class"], "optimizer");
  EXPECT_EQ(json["kernels"][0]["demangled"], "adam(float*, float*, int)");
  EXPECT_EQ(json["kernels"][0]["first"], 21);
  EXPECT_EQ(json["freed"], false);
  EXPECT_EQ(json["on_host"], 16 * kMiB);
  // Asked, backed, given, and a line a move.
  EXPECT_EQ(json["lines"].size(), 36U);
  EXPECT_THAT(json["lines"].back()["outcome"].get<std::string>(), HasSubstr("4 MiB crossed to the host"));
}

// As a rule of a policy file counts them: also of plain memory, which is followed by its address alone.
TEST_F(ExplainTest, KernelsAreListedWithTheirArguments) {
  tests::TraceMaker maker({});
  maker.allocate(1, policy::Bytes(4 << 20), policy::Backing::managed, {0x10000000});
  maker.allocate(2, policy::Bytes(4 << 20), policy::Backing::device, {0x20000000});
  maker.event(policy::FunctionSeen{{1}, "adam"});
  policy::LaunchShapeSeen shape;
  shape.shape = {1};
  shape.function = {1};
  shape.arguments = {{1, {0x20000000}}, {2, {0x10000000}}, {5, {0x10200000}}};
  maker.event(shape);
  maker.launch(1);
  put("run.swt", maker.finish());
  EXPECT_THAT(spillway({"stats", "run.swt", "--explain", "1"}).out,
              HasSubstr("kernel  argument\n         1      1     1  adam    2, 5\n"));
  const auto plain = nlohmann::json::parse(spillway({"stats", "run.swt", "--explain", "2", "--json"}).out);
  EXPECT_EQ(plain["kernels"][0].at("arguments"), nlohmann::json({1}));
}

// A sentence says of what was decided, and why, one thing.
TEST(Explain, WhatIsDoneAndWhyAgree) {
  using namespace policy;
  const auto said = [](DecisionBody body, Reason reason) {
    Decision decision;
    decision.body = std::move(body);
    decision.cause.reason = reason;
    return explain(decision);
  };
  const auto backed = [&said](Placement first, Reason reason) {
    return said(BackAllocation{{5}, Backing::managed, first}, reason);
  };
  EXPECT_EQ(backed(Placement::device, Reason::window_room),
            "allocation 5 is managed memory, in HBM at first, because the window has room for it");
  EXPECT_EQ(
      backed(Placement::device, Reason::window_full),
      "allocation 5 is managed memory, part of it in HBM and the rest on the host, because the window has no room "
      "for all of it");
  EXPECT_EQ(backed(Placement::host, Reason::window_full),
            "allocation 5 is managed memory, on the host at first, because the window has no room left");
  EXPECT_EQ(backed(Placement::host, Reason::device_budget),
            "allocation 5 is host memory, mapped, for good, because the device budget is used up");
  // All that can spill is mapped, wherever it is.
  const AdviseRange mapped{{5}, {}, 4_MiB, Advice::accessed_by};
  for (const Reason reason : {Reason::window_room, Reason::window_full, Reason::rule}) {
    EXPECT_EQ(
        said(mapped, reason),
        "4 MiB at offset 0 B of allocation 5 is mapped for the device, so that it never faults while it is on the "
        "host, as all memory that can spill is");
  }
  EXPECT_THAT(said(mapped, Reason::hot), ::testing::EndsWith(", because it was seen in use"));
  EXPECT_EQ(
      said(AdviseRange{{5}, {}, 4_MiB, Advice::prefer_host}, Reason::device_budget),
      "4 MiB at offset 0 B of allocation 5 has the host as its preferred place, because the device budget is used "
      "up");
  Cause cause;
  cause.launch = {9169};
  EXPECT_THAT(explain(cause), HasSubstr("decided at launch 9,169")) << "as the page writes numbers";
}

TEST_F(ExplainTest, AddressNamesTheLastThatHeldIt) {
  tests::TraceMaker maker({});
  maker.allocate(1, policy::Bytes(1 << 20), policy::Backing::device, {0x1000000});
  maker.event(policy::Freed{{1}, {}});
  maker.allocate(2, policy::Bytes(2 << 20), policy::Backing::device, {0x1000000});
  put("run.swt", maker.finish());
  const auto result = spillway({"stats", "run.swt", "--explain", "0x1000fff"});
  EXPECT_THAT(result.out, HasSubstr("Allocation 2: 2 MiB of plain device memory at 0x1000000"));
  EXPECT_THAT(result.out, HasSubstr("Before it, allocation 1 held that address."));
  EXPECT_THAT(spillway({"stats", "run.swt", "--explain", "0x10"}).err, HasSubstr("holds the address 0x10;"));
}

TEST_F(ExplainTest, RefusedAllocationSaysWhy) {
  put("run.swt", tests::sample_trace());
  const auto result = spillway({"stats", "run.swt", "--explain", "4"});
  EXPECT_THAT(result.out, HasSubstr("Allocation 4: 1 GiB, refused"));
  EXPECT_THAT(result.out, HasSubstr("because the host memory that may be used is used up"));
}

TEST_F(ExplainTest, CutTraceTellsWhatItHas) {
  const std::vector<std::byte> whole = tests::training_trace();
  put("cut.swt", {whole.begin(), whole.end() - 40});
  const auto result = spillway({"stats", "cut.swt", "--explain", "3"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("The trace is not whole: cut at byte " + std::to_string(whole.size() - 40)));
}

TEST_F(ExplainTest, MistakesAreOneLine) {
  put("run.swt", tests::training_trace());
  put("other.swt", tests::training_trace());
  const auto complaint = [this](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), "stats");
    const auto result = spillway(arguments);
    EXPECT_EQ(result.exit_code, code);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(complaint({"run.swt", "--explain", "weights"}, 2), HasSubstr("\"weights\" is no allocation"));
  EXPECT_THAT(complaint({"run.swt", "--explain", ""}, 2), HasSubstr("--explain: \"\" is no allocation"));
  EXPECT_THAT(complaint({"run.swt", "--explain", "99"}, 1), HasSubstr("this trace has no allocation 99"));
  EXPECT_THAT(complaint({"run.swt", "other.swt", "--explain", "1"}, 2), HasSubstr("2 traces are given"));
}

}  // namespace
}  // namespace spillway::tools
