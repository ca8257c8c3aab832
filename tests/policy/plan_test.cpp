// What a plan says of memory, and what it leaves to the run.
#include "policy/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/policy/workloads.hpp"

namespace spillway::policy {
namespace {

using testing::Workload;

ReplayResult replayed(const Workload& work, Settings settings, double share = 0.5) {
  settings.device_budget =
      SizeOrShare{Bytes(static_cast<std::uint64_t>(static_cast<double>(work.peak.count()) * share))};
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  options.bounds = ReplayOptions::WithBounds::no;
  return replay(work.events, {settings, {}}, work.costs, {}, options);
}

bool has_a_place(const Plan& plan, const FinalPlacement& placement) {
  return std::any_of(plan.file.rules.begin(), plan.file.rules.end(), [&](const Rule& rule) {
    return rule.action.place && rule.match.order_first.value <= placement.order &&
           placement.order <= rule.match.order_last.value;
  });
}

// As at the end of most programs.
void free_everything(Workload& work) {
  std::vector<AllocationId> live;
  for (const Event& event : work.events) {
    if (const auto* settled = std::get_if<AllocationSettled>(&event.body)) live.push_back(settled->allocation);
    if (const auto* freed = std::get_if<Freed>(&event.body)) std::erase(live, freed->allocation);
  }
  const Nanoseconds end = work.events.back().time;
  for (const AllocationId id : live) {
    work.events.push_back({end, FreeRequested{id, {}}});
    work.events.push_back({end, Freed{id, {}}});
  }
}

constexpr Bytes kCache = 40_MiB;  // unlike any weight

Workload decode() {
  testing::DecodeOptions options;
  options.kv_per_layer = kCache;
  return testing::llama_decode(options);
}

// A key-value cache would be probed: a place for all of it would keep the run from finding what of it is in use.
TEST(Plan, WhatMayBeUsedInPartsHasNoPlace) {
  for (const bool frees : {false, true}) {
    Workload work = decode();
    if (frees) free_everything(work);
    const ReplayResult result = replayed(work, {});
    const std::vector<FinalPlacement>& placements = frees ? result.freed : result.placements;
    const Plan plan = make_plan(result, {});
    Bytes cache;
    for (const FinalPlacement& placement : placements) {
      if (placement.bytes != kCache) continue;
      EXPECT_EQ(placement.found, UseFound::in_parts) << placement.order;
      EXPECT_FALSE(has_a_place(plan, placement)) << placement.order;
      cache += placement.bytes;
    }
    EXPECT_EQ(cache, kCache * 32) << "keys and values of sixteen layers";
    EXPECT_NE(plan.title.find(" that may be used in parts"), std::string::npos) << plan.title;
  }
}

TEST(Plan, WhereNothingIsProbedACacheHasAPlace) {
  Settings settings;
  settings.probes = Switch::off;
  const ReplayResult result = replayed(decode(), settings);
  EXPECT_TRUE(std::all_of(result.placements.begin(), result.placements.end(),
                          [](const FinalPlacement& placement) { return placement.found == UseFound::as_whole; }));
  const Plan plan = make_plan(result, settings);
  EXPECT_TRUE(std::any_of(result.placements.begin(), result.placements.end(), [&](const FinalPlacement& placement) {
    return placement.bytes == kCache && has_a_place(plan, placement);
  }));
}

// Before its first plan, what came last is on the host; that says nothing of what it is worth.
TEST(Plan, TheOrderOfArrivalIsNoReasonForAPlace) {
  const ReplayResult result = replayed(testing::mlp_adam(12, 64_MiB, 2), {});
  EXPECT_TRUE(std::any_of(result.placements.begin(), result.placements.end(),
                          [](const FinalPlacement& placement) { return placement.on_host == 64_MiB; }));
  const Plan plan = make_plan(result, {});
  EXPECT_TRUE(plan.file.rules.empty());
  EXPECT_EQ(plan.why_no_rule.rfind("No rule: this trace is too short", 0), 0u) << plan.why_no_rule;
}

TEST(Plan, WhereAllFitsThereIsNoRule) {
  const ReplayResult result = replayed(testing::mlp_adam(12, 64_MiB, 60), {}, 1.2);
  EXPECT_EQ(result.measured.model.crossed(), 0);
  const Plan plan = make_plan(result, {});
  EXPECT_TRUE(plan.file.rules.empty());
  EXPECT_EQ(plan.why_no_rule, "No rule: under this budget everything is in HBM.");
}

TEST(Plan, ARuleForOneAllocationIsNamedAsOne) {
  ReplayResult result;
  result.placements = {{{1}, 3, 64_MiB, {}, 64_MiB, UseFound::as_whole},
                       {{2}, 4, 64_MiB, 64_MiB, {}, UseFound::as_whole},
                       {{3}, 5, 64_MiB, 64_MiB, {}, UseFound::as_whole}};
  const Plan plan = make_plan(result, {});
  ASSERT_EQ(plan.file.rules.size(), 2u);
  EXPECT_EQ(plan.file.rules[0].name, "allocation 3");
  EXPECT_EQ(plan.file.rules[1].name, "allocations 4 to 5");
}

}  // namespace
}  // namespace spillway::policy
