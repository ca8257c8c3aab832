#include "tools/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "policy/plan.hpp"
#include "tests/policy/workloads.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;

TraceEvents trace(std::uint64_t layer_mib = 16) {
  policy::testing::Workload work = policy::testing::mlp_adam(12, policy::Bytes(layer_mib << 20), 40);
  TraceEvents events;
  events.launches = work.iteration_ends.back().value;
  events.events = std::move(work.events);
  events.state = "whole";
  return events;
}

std::vector<NamedReplay> replays(const TraceEvents& events, std::uint64_t budget_mib = 400,
                                 policy::ReplayOptions::Keep keep = policy::ReplayOptions::Keep::figures) {
  std::vector<NamedPolicy> policies(3);
  EXPECT_FALSE(load_policy("adaptive", policies[0]));
  EXPECT_FALSE(load_policy("arrival", policies[1]));
  EXPECT_FALSE(load_policy("demand", policies[2]));
  ReplayRequest request;
  request.budget = policy::SizeOrShare{policy::Bytes(budget_mib << 20)};
  request.keep = keep;
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
  TraceEvents events = trace();
  const auto all = replays(events);
  EXPECT_THAT(replay_text(events, all), ::testing::Not(HasSubstr("iterations, as stats counts them")));
  events.iterations = {20, 21};
  events.iteration_launches = 24;
  const std::string text = replay_text(events, all);
  for (const char* word :
       {"adaptive", "arrival", "demand", "of least time", "of least crossed", "  400 MiB",
        "no policy can take less than", "periods that the policies went by, in launches: adaptive ",
        "iterations, as stats counts them: 20 whole, then 21 (not whole); the last whole one has 24 launches\n"})
    EXPECT_THAT(text, HasSubstr(word));
  const auto json = replay_json(events, all);
  ASSERT_EQ(json["replays"].size(), 3u);
  EXPECT_EQ(json["replays"][1]["policy"], "arrival");
  EXPECT_GT(json["replays"][2]["measured"]["faulted_bytes"], 0);
  EXPECT_EQ(json["replays"][0]["bounds"]["traffic_bytes"], json["replays"][1]["bounds"]["traffic_bytes"]);
}

// As most programs end: everything is freed, then nothing is launched any more.
TraceEvents trace_with_frees(std::uint64_t layer_mib) {
  TraceEvents events = trace(layer_mib);
  std::vector<policy::AllocationId> live;
  for (const policy::Event& event : events.events) {
    if (const auto* settled = std::get_if<policy::AllocationSettled>(&event.body)) live.push_back(settled->allocation);
    if (const auto* freed = std::get_if<policy::Freed>(&event.body)) std::erase(live, freed->allocation);
  }
  const policy::Nanoseconds end = events.events.back().time;
  for (const policy::AllocationId id : live) {
    events.events.push_back({end, policy::FreeRequested{id, {}}});
    events.events.push_back({end, policy::Freed{id, {}}});
  }
  return events;
}

TEST(Replay, FreesAtTheEndChangeNeitherBoundNorPlan) {
  const auto kept = replays(trace(32), 800, policy::ReplayOptions::Keep::decisions);
  const auto freed = replays(trace_with_frees(32), 800, policy::ReplayOptions::Keep::decisions);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_GT(kept[i].result.bounds.traffic, 0);
    EXPECT_NEAR(freed[i].result.bounds.traffic, kept[i].result.bounds.traffic, 1) << kept[i].name;
    EXPECT_EQ(freed[i].result.window, kept[i].result.window);
  }
  const auto placed = [](const NamedReplay& replay) {
    return policy::make_plan(replay.result, replay.policy.settings).file.rules;
  };
  EXPECT_FALSE(placed(kept[0]).empty());
  EXPECT_EQ(placed(freed[0]).size(), placed(kept[0]).size());
  EXPECT_TRUE(kept[0].result.freed.empty());
  EXPECT_TRUE(freed[0].result.placements.empty());
}

std::size_t times_in(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(Replay, EachBudgetStandsWithItsRowAndEachWindowWithItsBound) {
  const TraceEvents events = trace();
  std::vector<NamedPolicy> policies(3);
  for (std::size_t i = 0; i < policies.size(); ++i) {
    EXPECT_FALSE(load_policy("arrival", policies[i]));
    if (i == 1) policies[i].name = "second";
    policies[i].file.settings.device_budget =
        policy::SizeOrShare{policy::Bytes(std::uint64_t{i < 2 ? 400U : 500U} << 20U)};
  }
  const std::string text = replay_text(events, replay_all(events, policies, {}));
  EXPECT_EQ(times_in(text, "arrival  400 MiB"), 1u) << text;
  EXPECT_EQ(times_in(text, "second   400 MiB"), 1u);
  EXPECT_EQ(times_in(text, "arrival  500 MiB"), 1u);
  EXPECT_EQ(times_in(text, "least for "), 2u) << "the same bound is said once";
  EXPECT_EQ(times_in(text, "least for arrival, second: with 400 MiB of HBM "), 1u);
  EXPECT_EQ(times_in(text, "least for arrival: with 500 MiB of HBM "), 1u);
}

// Where a program's own calls are what takes long, every policy is far from the least.
TEST(Replay, TimeWithoutAKernelIsSaidNotToBeThePlacements) {
  std::vector<NamedReplay> all(2);
  all[0].name = "adaptive";
  all[0].result.measured.seconds = 1.5;
  all[0].result.measured.model.busy_seconds = 0.1;
  all[1] = all[0];
  all[1].name = "demand";
  all[1].result.measured.seconds = 1.75;
  const auto text = [&] { return replay_text(trace(), all); };
  EXPECT_THAT(text(), HasSubstr("\nof least time: the least has the kernels and the link alone; beside them, under "
                                "adaptive no kernel runs for 1.4000 s of 1.5000 s, in calls and pauses of the program, "
                                "which no placement changes\n"));
  all[0].result.measured.model.moved_in = 4096;
  EXPECT_THAT(text(), HasSubstr(" s, in calls and pauses of the program and in waits for what moves\n"));
  all[0].result.measured.model.busy_seconds = 1.4;
  EXPECT_THAT(text(), ::testing::Not(HasSubstr("no kernel runs")));
  EXPECT_EQ(replay_json(trace(), all)["replays"][0]["measured"]["busy_seconds"], 1.4);
}

TEST(Replay, SizesOfASmallRunCanBeRead) {
  std::vector<NamedReplay> all(1);
  all[0].result.measured.model.moved_in = 3 << 20;
  EXPECT_THAT(replay_text(trace(), all), HasSubstr("  3 MiB  "));
}

// A replay decides anew: where that is not what happened, it says so.
TEST(Replay, WhatTheRecordedRunMovedIsSaidWhereItsReplayMovesSomethingElse) {
  TraceEvents events = trace();
  events.settings.device_budget = policy::SizeOrShare{policy::Bytes(std::uint64_t{400} << 20)};
  NamedPolicy own, other;
  EXPECT_FALSE(load_policy("adaptive", own, events.settings));
  EXPECT_FALSE(load_policy("arrival", other, events.settings));
  const auto all = replay_all(events, {own, other}, {});
  const auto& moved = all[0].result.all.model;
  ASSERT_GT(moved.moved_in, 0);
  EXPECT_THAT(replay_text(events, all), HasSubstr("the recorded run moved 0 B in and 0 B out in all, and its replay"));
  EXPECT_THAT(replay_text(events, {all[1]}), ::testing::Not(HasSubstr("the recorded run moved")));
  events.moved_in = policy::Bytes(static_cast<std::uint64_t>(moved.moved_in));
  events.moved_out = policy::Bytes(static_cast<std::uint64_t>(moved.moved_out));
  EXPECT_THAT(replay_text(events, all), ::testing::Not(HasSubstr("the recorded run moved")));
  EXPECT_EQ(replay_json(events, all)["recorded"]["moved_in_bytes"], events.moved_in.count());
}

TEST(Replay, ATraceOfASimulatedDeviceIsSaidToBeOne) {
  TraceEvents events = trace();
  const auto all = replays(events);
  EXPECT_THAT(replay_text(events, all), ::testing::Not(HasSubstr("simulated")));
  EXPECT_EQ(replay_json(events, all)["simulated"], false);
  events.simulated = true;
  EXPECT_THAT(replay_text(events, all), HasSubstr("the trace is of a simulated device"));
  EXPECT_EQ(replay_json(events, all)["simulated"], true);
}

TEST(Replay, APlanWithoutRulesSaysWhy) {
  policy::ReplayResult result;
  const auto why = [&] { return policy::make_plan(result, {}); };
  EXPECT_THAT(why().why_no_rule, HasSubstr("no allocation that can spill"));
  EXPECT_THAT(policy::write_plan(why()), HasSubstr("# No rule: no allocation that can spill"));
  const policy::Bytes size{std::uint64_t{64} << 20}, half{std::uint64_t{32} << 20};
  result.measured.model.remote_read = 1;
  result.freed = {{{1}, 1, size, half, half, policy::UseFound::as_whole}};
  EXPECT_THAT(why().why_no_rule, HasSubstr("wholly"));
  result.freed = {{{1}, 1, size, {}, size, policy::UseFound::as_whole}};
  EXPECT_EQ(why().why_no_rule, "");
}

TEST(Replay, OffIsSaidNotToFitWhereItDoesNot) {
  const TraceEvents events = trace();
  std::vector<NamedPolicy> policies(2);
  EXPECT_FALSE(load_policy("arrival", policies[0]));
  EXPECT_FALSE(load_policy("off", policies[1]));
  ReplayRequest request;
  request.budget = policy::SizeOrShare{policy::Bytes(std::uint64_t{400} << 20)};
  const auto tight = replay_all(events, policies, request);
  EXPECT_THAT(replay_text(events, tight), HasSubstr("off (does not fit)"));
  EXPECT_THAT(replay_text(events, tight), HasSubstr("of a budget of 400 MiB"));
  EXPECT_EQ(replay_json(events, tight)["replays"][1]["fits"], false);
  EXPECT_EQ(replay_json(events, tight)["replays"][0]["fits"], true);
  const auto roomy = replay_all(events, policies, {});
  EXPECT_THAT(replay_text(events, roomy), ::testing::Not(HasSubstr("does not fit")));
}

TEST(Replay, APolicyThatRefusesMemoryIsSaidToEndTheProgram) {
  std::vector<NamedReplay> all(2);
  all[0].name = "adaptive";
  all[0].result.refused = all[0].result.out_of_memory = 3;
  all[1].name = "caches";
  all[1].result.refused = 1;  // as memory.oom_first does once
  const std::string text = replay_text(trace(), all);
  EXPECT_THAT(text, HasSubstr("adaptive (out of memory)  "));
  EXPECT_THAT(text, HasSubstr("adaptive: 3 allocations are refused, so the program would end: out of memory; take a "
                              "larger budget\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("caches (")));
  EXPECT_EQ(replay_json(trace(), all)["replays"][0]["out_of_memory"], true);
  EXPECT_EQ(replay_json(trace(), all)["replays"][1]["out_of_memory"], false);
}

TEST(Replay, RefusalsOfAPolicyAreCounted) {
  const TraceEvents events = trace();
  std::vector<NamedPolicy> policies(1);
  EXPECT_FALSE(load_policy("adaptive", policies[0]));
  policies[0].file.settings.host_budget = policy::SizeOrShare{policy::Bytes(std::uint64_t{1} << 20)};
  ReplayRequest request;
  request.budget = policy::SizeOrShare{policy::Bytes(std::uint64_t{100} << 20)};
  EXPECT_THAT(replay_text(events, replay_all(events, policies, request)), HasSubstr("adaptive (out of memory)"));
}

TEST(Replay, ABudgetThatTheRecordedCardHadNotIsSaid) {
  const TraceEvents events = trace();
  const auto all = replays(events, std::uint64_t{1} << 30);
  const std::string text = replay_text(events, all);
  EXPECT_THAT(text, HasSubstr("1024 TiB asked for, no more was free on the recorded card\n"));
  EXPECT_EQ(text.find("asked for"), text.rfind("asked for")) << "once for all";
  EXPECT_THAT(replay_text(events, replays(events, 400)), ::testing::Not(HasSubstr("asked for")));
}

TEST(Replay, AModeTakesItsOtherSettingsFromTheRecordedRun) {
  policy::Settings recorded;
  recorded.device_budget = policy::SizeOrShare{policy::Bytes(std::uint64_t{400} << 20)};
  recorded.mode = policy::ModeName::arrival;
  NamedPolicy policy;
  EXPECT_FALSE(load_policy("demand", policy, recorded));
  EXPECT_EQ(policy.file.settings.mode, policy::ModeName::demand);
  EXPECT_EQ(policy.file.settings.device_budget, recorded.device_budget);
}

TEST(Replay, APolicyThatIsNeitherFileNorModeIsNamed) {
  NamedPolicy policy;
  const auto problem = load_policy("adaptiv", policy);
  ASSERT_TRUE(problem);
  EXPECT_THAT(*problem, HasSubstr("'adaptiv' is neither a policy file"));
  EXPECT_THAT(*problem, HasSubstr("alloc_prefetch"));
}

class ReplayCommandTest : public TraceCommandTest {};

TEST_F(ReplayCommandTest, APlanForMoreThanTheCardHadIsForWhatItHad) {
  put("run.swt", tests::training_trace());
  const auto result = spillway({"plan", "run.swt", "--device-budget", "500GiB"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr(": 500 GiB asked for, no more was free on the recorded card"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("device_budget = \"500GiB\"")));
  EXPECT_THAT(result.out, HasSubstr("device_budget = "));
}

TEST_F(ReplayCommandTest, ModeOffHasNoBound) {
  put("run.swt", tests::training_trace());
  const auto result = spillway({"replay", "run.swt", "--compare", "off"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("least for adaptive: with "));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("least for adaptive, off")));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("least for off")));
}

TEST(Replay, TheRowOfModeOffIsComparedWithNoBound) {
  const TraceEvents events = trace();
  std::vector<NamedReplay> one = {replays(events).front()};
  const auto ratios = [&] {
    const std::string text = replay_text(events, one);
    return std::count(text.begin(), text.end(), 'x') -
           std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("budget")), 'x');
  };
  const auto with_bound = ratios();
  one.front().policy.settings.mode = policy::ModeName::off;
  EXPECT_EQ(ratios(), with_bound - 2) << replay_text(events, one);
}

// Both figures stand in the page; that the one is of the whole run is said where it shows.
TEST(Replay, APeakAboveTheWindowOfTheBoundIsExplained) {
  std::vector<NamedReplay> all(3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = i == 0 ? "adaptive" : i == 1 ? "arrival" : "off";
    all[i].result.window = policy::Bytes(100);
    all[i].result.resident_peak = policy::Bytes(i == 1 ? 100 : 101);
  }
  all[2].policy.settings.mode = policy::ModeName::off;
  EXPECT_THAT(replay_text(trace(), all), HasSubstr("\npeak: of the whole run; for adaptive it is above the window"));
  all[0].result.resident_peak = policy::Bytes(100);
  EXPECT_THAT(replay_text(trace(), all), ::testing::Not(HasSubstr("peak: of the whole run")));
}

TEST_F(ReplayCommandTest, APlanKeepsTheOneThatWasThere) {
  put("run.swt", tests::training_trace());
  const std::vector<std::string> command = {"plan", "run.swt", "--device-budget", "90%", "-o", "plan.toml"};
  EXPECT_EQ(spillway(command).err.find("kept"), std::string::npos);
  EXPECT_EQ(spillway(command).err.find("kept"), std::string::npos) << "the same again";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "plan.toml.old"));
  for (const std::string name : {"plan.toml.old", "plan.toml.1.old"}) {
    std::ofstream(folder_ / "plan.toml", std::ios::app) << "# mine, " << name << "\n";
    EXPECT_THAT(spillway(command).err, HasSubstr("the plan that was in plan.toml is kept as " + name + "\n"));
    std::ifstream kept(folder_ / name);
    const std::string text{std::istreambuf_iterator<char>(kept), {}};
    EXPECT_THAT(text, ::testing::EndsWith("# mine, " + name + "\n"));
  }
}

TEST_F(ReplayCommandTest, WhereAPlanCannotBeKeptItIsNotReplaced) {
  put("run.swt", tests::training_trace());
  const auto plan = [this](const std::string& output) {
    return spillway({"plan", "run.swt", "--device-budget", "90%", "-o", output});
  };
  // With ".old" the name is longer than a file system takes.
  const std::string name = std::string(249, 'n') + ".toml";
  ASSERT_EQ(plan("plan.toml").exit_code, 0);
  std::ofstream(folder_ / name) << text("plan.toml") << "# mine\n";
  const std::string before = text(name);
  const auto refused = plan(name);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr(name + ": would be replaced, and cannot be kept as " + name +
                                     ".old: File name too long; name another file with -o\n"));
  EXPECT_EQ(text(name), before);
}

TEST_F(ReplayCommandTest, WhatIsNoOtherPlanIsNotKept) {
  put("run.swt", tests::training_trace());
  const auto plan = [this](const std::string& output) {
    const auto result = spillway({"plan", "run.swt", "--device-budget", "90%", "-o", output});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  put("empty.toml", {});
  EXPECT_THAT(plan("empty.toml"), ::testing::Not(HasSubstr("kept")));
  std::ofstream(folder_ / "-") << text("empty.toml") << "# mine\n";
  EXPECT_THAT(plan("-"), ::testing::Not(HasSubstr("kept"))) << "standard output";
  // A name that is taken, if by a link to nothing.
  std::filesystem::create_symlink("nothing", folder_ / "empty.toml.old");
  std::ofstream(folder_ / "empty.toml", std::ios::app) << "# mine\n";
  EXPECT_THAT(plan("empty.toml"), HasSubstr("is kept as empty.toml.1.old\n"));
}

// What a recorded run knew by its times a replay does not know: its probes are in the trace.
TEST_F(ReplayCommandTest, APlanHasNoPlaceForWhatTheRecordedRunProbed) {
  const policy::testing::Workload work = policy::testing::mlp_adam(12, policy::Bytes(std::uint64_t{64} << 20), 40);
  const auto recorded = [&](bool probes) {
    tests::TraceMaker maker(policy::trace::TraceHeader{});
    for (const policy::Event& event : work.events) {
      maker.event(event.body);
      const auto* settled = std::get_if<policy::AllocationSettled>(&event.body);
      if (settled == nullptr || !probes) continue;
      policy::Cause cause;
      cause.reason = policy::Reason::sparse;
      maker.decide(cause, policy::AdviseRange{settled->allocation, {}, policy::kChunk, policy::Advice::probe});
    }
    return maker.finish();
  };
  const auto planned = [&](const std::string& trace) {
    const auto result = spillway({"plan", trace, "--device-budget", "2GiB"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string none = planned(put("none.swt", recorded(false))), all = planned(put("all.swt", recorded(true)));
  EXPECT_GT(times_in(none, "\nplace = \"host\""), 0u);
  EXPECT_EQ(times_in(all, "\nplace = "), 0u);
  EXPECT_THAT(all, HasSubstr("No rule for 3 GiB that may be used in parts"));
}

// What a trace was recorded with is what its next run has, but for what the plan decides.
TEST_F(ReplayCommandTest, APlanKeepsTheSettingsOfTheRecordedRun) {
  policy::trace::TraceHeader header;
  header.settings = {{"memory.backing", "device"}, {"memory.device_budget", "2GiB"}, {"memory.host_budget", "6GiB"},
                     {"memory.window", "80%"},     {"memory.report", "real"},        {"memory.spill_pools", "off"},
                     {"policy.mode", "arrival"},   {"telemetry.sample", "20%"},      {"trace.path", "old.swt"}};
  tests::TraceMaker maker(header);
  const policy::testing::Workload work = policy::testing::mlp_adam(12, policy::Bytes(std::uint64_t{64} << 20), 40);
  for (const policy::Event& event : work.events) maker.event(event.body);
  put("run.swt", maker.finish());
  const auto result = spillway({"plan", "run.swt", "--device-budget", "1GiB", "-o", "plan.toml"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string plan = text("plan.toml");
  for (const char* line : {"device_budget = \"1GiB\"", "host_budget = \"6GiB\"", "window = \"80%\"",
                           "report = \"real\"", "spill_pools = \"off\"", "sample = \"20%\""})
    EXPECT_THAT(plan, HasSubstr(std::string("\n") + line + "\n"));
  EXPECT_THAT(plan, HasSubstr("\n# mode = \"adaptive\"\n"));
  EXPECT_THAT(plan, HasSubstr("\n# backing = \"auto\"\n")) << "without spilling it would be no plan";
  EXPECT_THAT(plan, HasSubstr("\n# path = \"\"\n"));
  EXPECT_EQ(spillway({"check", "plan.toml"}).exit_code, 0);
}

TEST_F(ReplayCommandTest, AProgramThatEndedForWantOfMemoryBeforeItsFirstLaunchIsSaidToHave) {
  const auto said = [this](const std::string& mode, std::uint64_t host_mib, std::int32_t code) {
    policy::trace::TraceHeader header;
    header.settings = {{"policy.mode", mode}};
    tests::TraceMaker maker(header);
    maker.event(policy::HostMemorySeen{policy::Bytes(host_mib << 20)});
    const policy::Bytes card(std::uint64_t{32} << 20);
    maker.event(policy::DeviceSeen{{0}, {}, card, card, true, "card"});
    const policy::Bytes asked(std::uint64_t{64} << 20);
    maker.event(policy::AllocationRequested{{1}, {0}, asked, policy::AllocationKind::linear, {}, {}, false});
    maker.event(policy::AllocationSettled{{1}, {}, asked, policy::Backing::device, {code}});
    put("run.swt", maker.finish());
    const auto result = spillway({"replay", "run.swt"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(spillway({"plan", "run.swt", "--device-budget", "16MiB"}).err, result.err);
    return result.err;
  };
  const std::string refused =
      "spillway: run.swt: no launch in this trace: the program was refused 64 MiB (cudaMalloc, 2 MiB and more) beside "
      "0 B in use before its first launch; ";
  EXPECT_EQ(said("off", 256, 2), refused + "record it without --mode off, where that spills\n");
  EXPECT_EQ(said("off", 16, 2), refused + "`spillway doctor -- program` says what it needs\n");
  EXPECT_EQ(said("adaptive", 256, 2), refused + "`spillway doctor -- program` says what it needs\n");
  EXPECT_EQ(said("off", 256, 1), "spillway: run.swt: no launch in this trace; record one with spillway run --trace\n");
}

TEST_F(ReplayCommandTest, ALaunchThatThereIsNotIsNamedWithThoseThereAre) {
  put("run.swt", tests::training_trace());
  const auto complaint = [this](const std::string& launch) {
    const auto result = spillway({"replay", "run.swt", "--from-launch", launch});
    EXPECT_EQ(result.exit_code, 2) << launch;
    EXPECT_THAT(result.err, HasSubstr("from 0 to 479"));
    return result.err;
  };
  for (const std::string& launch : std::vector<std::string>{"480", "18446744073709551615", "18446744073709551616"})
    EXPECT_THAT(complaint(launch), HasSubstr("\"" + launch + "\" leaves no launch to count"));
  for (const std::string& launch : std::vector<std::string>{"-1", "", "5x", "abc"})
    EXPECT_THAT(complaint(launch), HasSubstr("\"" + launch + "\" is not a whole number; write one "));
  EXPECT_THAT(spillway({"replay", "run.swt", "--from-launch", "470"}).out, HasSubstr("of the last 10 launches"));
  EXPECT_THAT(spillway({"replay", "run.swt", "--from-launch", "0"}).out, HasSubstr("of the last 480 launches"));
}

}  // namespace
}  // namespace spillway::tools
