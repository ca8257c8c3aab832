#include "policy/engine.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/policy/scripted_program.hpp"

namespace spillway::policy {
namespace {

using testing::ScriptedProgram;

Settings with(ModeName mode, std::optional<Bytes> budget) {
  Settings settings;
  settings.mode = mode;
  if (budget) settings.device_budget = SizeOrShare{*budget};
  return settings;
}

std::size_t count_moves(const std::vector<Decision>& decisions, Placement to) {
  return static_cast<std::size_t>(std::count_if(decisions.begin(), decisions.end(), [to](const Decision& decision) {
    const auto* move = std::get_if<MoveRange>(&decision.body);
    return move != nullptr && move->to == to;
  }));
}

TEST(Backing, StaysPlainWhileNothingSaysThatTheRunWillSpill) {
  ScriptedProgram program(with(ModeName::arrival, std::nullopt), 64_GiB, 256_GiB);
  const Address small = program.allocate(4_GiB);
  EXPECT_EQ(program.backing(small), Backing::device);
  const Address beyond_the_share = program.allocate(16_GiB);
  EXPECT_EQ(program.backing(beyond_the_share), Backing::managed);
}

TEST(Backing, IsManagedFromTheStartUnderABudgetBelowTheCard) {
  ScriptedProgram program(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB);
  EXPECT_EQ(program.backing(program.allocate(2_MiB)), Backing::managed);
  EXPECT_EQ(program.backing(program.allocate(2_MiB - Bytes(1))), Backing::device);
}

TEST(Backing, OffPassesEverythingThroughAndCounts) {
  ScriptedProgram program(with(ModeName::off, 1_GiB), 64_GiB, 256_GiB);
  const Address address = program.allocate(2_GiB);
  EXPECT_EQ(program.backing(address), Backing::device);
  EXPECT_EQ(program.totals().plain, 2_GiB);
  program.free(address);
  EXPECT_EQ(program.totals().plain, Bytes());
}

TEST(Backing, WhatCannotSpillIsRefusedAtTheBudget) {
  ScriptedProgram program(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB);
  EXPECT_TRUE(program.allocate(900_MiB, AllocationKind::stream_ordered));
  EXPECT_FALSE(program.allocate(200_MiB, AllocationKind::stream_ordered));
  ASSERT_TRUE(std::holds_alternative<RefuseAllocation>(program.last().front().body));
  EXPECT_EQ(std::get<RefuseAllocation>(program.last().front().body).missing, 76_MiB);
  EXPECT_EQ(program.last().front().cause.reason, Reason::device_budget);
}

std::size_t count_notes(const std::vector<Decision>& decisions, const std::string& part) {
  return static_cast<std::size_t>(std::count_if(decisions.begin(), decisions.end(), [&](const Decision& decision) {
    const auto* note = std::get_if<Note>(&decision.body);
    return note != nullptr && note->text.find(part) != std::string::npos;
  }));
}

class OwnContext : public ::testing::TestWithParam<ModeName> {};

TEST_P(OwnContext, WithoutRoomForItWhatSpillsIsOnTheHostUntilThereIs) {
  ScriptedProgram program(with(GetParam(), 1_GiB), 64_GiB, 256_GiB, {}, ScriptedProgram::OwnContext::none);
  const Address plain = program.allocate(640_MiB, AllocationKind::stream_ordered);
  EXPECT_EQ(program.engine().lacking_to_move({0}), 10_MiB);  // 392 MiB for it, 2 MiB to move
  const Address first = program.allocate(64_MiB);
  EXPECT_EQ(program.backing(first), Backing::managed);
  for (int i = 0; i < 20; ++i) program.launch({first, program.allocate(4_MiB)});
  program.finish_all();
  EXPECT_EQ(program.on_card(), Bytes());
  EXPECT_EQ(program.totals().resident + program.totals().arriving, Bytes());
  EXPECT_EQ(program.totals().on_host, 144_MiB);
  EXPECT_EQ(count_notes(program.decisions(), "the budget has no room for a context for moves beside 640 MiB"), 1U);
  EXPECT_TRUE(program.allocate(380_MiB, AllocationKind::stream_ordered)) << "plain memory has all of the budget";
  program.free(plain);
  EXPECT_EQ(program.engine().lacking_to_move({0}), Bytes());
  const Address second = program.allocate(64_MiB);
  program.launch({second});
  EXPECT_EQ(program.on_card(second), 64_MiB);
  EXPECT_EQ(program.engine().check_invariants(), "");
}

TEST_P(OwnContext, ThatIsMadeNeedsNoMoreRoom) {
  ScriptedProgram program(with(GetParam(), 1_GiB), 64_GiB, 256_GiB, {}, ScriptedProgram::OwnContext::none);
  program.send(DeviceReserved{{0}, 338_MiB, "migration context"});
  EXPECT_TRUE(program.allocate(600_MiB, AllocationKind::stream_ordered));
  EXPECT_EQ(program.engine().lacking_to_move({0}), Bytes());
  const Address memory = program.allocate(64_MiB);
  program.launch({memory});
  EXPECT_EQ(program.on_card(memory), 64_MiB);
}

TEST_P(OwnContext, ThatTheDriverRefusesLeavesAllOnTheHost) {
  ScriptedProgram program(with(GetParam(), 1_GiB), 64_GiB, 256_GiB, {}, ScriptedProgram::OwnContext::none);
  program.send(ContextRefused{{0}, {2}});
  const Address memory = program.allocate(64_MiB);
  program.launch({memory});
  EXPECT_EQ(program.on_card(), Bytes());
  EXPECT_EQ(count_notes(program.decisions(), "the driver refused a context for moves"), 1U);
}

INSTANTIATE_TEST_SUITE_P(Modes, OwnContext,
                         ::testing::Values(ModeName::arrival, ModeName::demand, ModeName::alloc_prefetch,
                                           ModeName::adaptive));

TEST(MapStyle, IsOnTheHostForGoodWhereTheBudgetEnds) {
  Settings settings = with(ModeName::arrival, 1_GiB);
  settings.host_budget = SizeOrShare{512_MiB};
  ScriptedProgram program(settings, 64_GiB, 256_GiB);
  const Address first = program.allocate(900_MiB, AllocationKind::stretchable);
  EXPECT_EQ(program.backing(first), Backing::device);
  const Address second = program.allocate(400_MiB, AllocationKind::stretchable);
  EXPECT_EQ(program.backing(second), Backing::managed);
  EXPECT_EQ(program.totals().on_host, 400_MiB);
  EXPECT_EQ(program.totals().resident, Bytes());
  EXPECT_EQ(program.totals().plain, 900_MiB);
  EXPECT_EQ(program.open_moves(), 0U);
  EXPECT_FALSE(program.allocate(200_MiB, AllocationKind::stretchable));
  EXPECT_EQ(program.last().front().cause.reason, Reason::host_budget);
  // Neither launches nor room for others move it.
  program.launch({second});
  program.free(first);
  EXPECT_EQ(program.backing(program.allocate(900_MiB, AllocationKind::stretchable)), Backing::device);
  EXPECT_EQ(program.totals().on_host, 400_MiB);
  program.free(second);
  EXPECT_EQ(program.totals().on_host, Bytes());
  EXPECT_EQ(program.totals().managed, Bytes());
  EXPECT_EQ(program.engine().check_invariants(), "");
}

TEST(MapStyle, IsRefusedWhereASettingKeepsItPlain) {
  for (const bool by_setting : {true, false}) {
    Settings settings = with(ModeName::arrival, 1_GiB);
    if (by_setting) {
      settings.spill_vmm = Switch::off;
    } else {
      settings.backing = BackingMode::device;
    }
    ScriptedProgram program(settings, 64_GiB, 256_GiB);
    EXPECT_FALSE(program.allocate(1100_MiB, AllocationKind::stretchable));
    EXPECT_EQ(program.last().front().cause.reason, Reason::device_budget);
  }
}

TEST(MapStyle, GoesToTheHostAfterTheDriverHadNoneLeftUntilPlainMemoryIsFreed) {
  ScriptedProgram program(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB);
  const Address plain = program.allocate(100_MiB, AllocationKind::stretchable);
  EXPECT_FALSE(program.allocate(20_MiB, AllocationKind::stretchable, DriverResult{2}));
  EXPECT_EQ(program.backing(program.allocate(20_MiB, AllocationKind::stretchable)), Backing::managed);
  program.free(plain);
  EXPECT_EQ(program.backing(program.allocate(20_MiB, AllocationKind::stretchable)), Backing::device);
}

// A program that maps as much as the budget has still gets the small plain memory that it asks for afterwards.
TEST(MapStyle, LeavesRoomForWhatHasToBeOnTheDevice) {
  ScriptedProgram program(with(ModeName::adaptive, 768_MiB), 64_GiB, 256_GiB);
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(program.allocate(64_MiB, AllocationKind::stretchable));
  EXPECT_EQ(program.totals().plain, 64_MiB * 11);
  EXPECT_EQ(program.totals().on_host, 64_MiB * 13);
  EXPECT_TRUE(program.allocate(Bytes(8)));
  EXPECT_TRUE(program.allocate(12_MiB, AllocationKind::array));
  EXPECT_FALSE(program.allocate(65_MiB, AllocationKind::array));
}

TEST(MapStyle, IsTouchedWhereItIsMapped) {
  ScriptedProgram program(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB);
  const Address memory = program.allocate(20_MiB, AllocationKind::stretchable);
  const AllocationId id = program.id(memory);
  program.send(Mapped{id, {0x7e0000000000}});
  program.send(Mapped{id, {}});
  program.send(FreeRequested{id, {}});
  program.send(Freed{id, {}});
  EXPECT_EQ(program.engine().ignored_events(), 0U);
  program.send(Mapped{id, {0x7e0000000000}});
  EXPECT_EQ(program.engine().ignored_events(), 1U);
}

TEST(Backing, RefusesWhenHostMemoryIsUsedUp) {
  Settings settings = with(ModeName::arrival, 1_GiB);
  settings.host_budget = SizeOrShare{1_GiB};
  ScriptedProgram program(settings, 64_GiB, 256_GiB);
  const Address address = program.allocate(2_GiB);
  EXPECT_TRUE(address);
  program.finish_all();
  EXPECT_FALSE(program.allocate(2_MiB));
  EXPECT_EQ(program.last().front().cause.reason, Reason::host_budget);
  program.free(address);
  EXPECT_TRUE(program.allocate(2_MiB));
}

// What is in HBM would have to leave, and the host has no room for it: no place can be promised that will not be there.
TEST(Backing, PlainMemoryIsRefusedWhereWhatIsInItsPlaceCannotLeave) {
  for (const ModeName mode : {ModeName::demand, ModeName::alloc_prefetch, ModeName::arrival, ModeName::adaptive}) {
    Settings settings = with(mode, 64_MiB);
    settings.host_budget = SizeOrShare{32_MiB};
    ScriptedProgram program(settings, 64_GiB, 256_GiB);
    const Address inside = program.allocate(64_MiB);
    program.launch({inside});
    const Address outside = program.allocate(20_MiB);
    ASSERT_TRUE(outside);
    program.launch({outside, inside});
    const Bytes before = program.totals().plain;
    ASSERT_FALSE(program.allocate(50_MiB, AllocationKind::stream_ordered));
    const auto refused = std::find_if(program.last().begin(), program.last().end(), [](const Decision& decision) {
      return std::holds_alternative<RefuseAllocation>(decision.body);
    });
    ASSERT_NE(refused, program.last().end());
    EXPECT_EQ(refused->cause.reason, Reason::host_budget);
    EXPECT_GT(std::get<RefuseAllocation>(refused->body).missing, Bytes());
    EXPECT_EQ(program.totals().plain, before) << "nothing is left promised";
    EXPECT_TRUE(program.allocate(8_MiB, AllocationKind::stream_ordered)) << "what has a place is given";
    EXPECT_LE(program.on_card() + program.totals().plain, 64_MiB);
  }
}

// What could be plain finds its place taken by what is on its way back to the driver.
TEST(Backing, WhatCanSpillIsManagedWherePlainMemoryFindsNoPlace) {
  for (const AllocationKind kind : {AllocationKind::linear, AllocationKind::stretchable}) {
    ScriptedProgram program(with(ModeName::arrival, std::nullopt), 64_GiB, 256_GiB);
    std::vector<Address> going;
    for (int i = 0; i < 3; ++i) going.push_back(program.allocate(20_GiB));
    program.finish_all();
    EXPECT_EQ(program.totals().resident, 60_GiB);
    for (const Address memory : going) program.send(FreeRequested{program.id(memory), {}});
    const Address memory = program.allocate(4_GiB, kind);
    ASSERT_TRUE(memory);
    EXPECT_EQ(program.backing(memory), Backing::managed);
    EXPECT_EQ(program.totals().plain, Bytes()) << "nothing is left promised";
    EXPECT_FALSE(program.allocate(4_GiB, AllocationKind::stream_ordered)) << "what cannot spill needs the place";
    EXPECT_EQ(program.last().back().cause.reason, Reason::device_budget);
    EXPECT_EQ(program.engine().check_invariants(), "");
  }
}

// What is refused in any case sends nobody out for it.
TEST(Backing, NothingLeavesForPlainMemoryThatIsBeyondTheBudget) {
  ScriptedProgram program(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB);
  program.allocate(900_MiB);
  program.finish_all();
  ASSERT_EQ(program.totals().resident, 900_MiB);
  EXPECT_FALSE(program.allocate(1_GiB + 2_MiB, AllocationKind::stream_ordered));
  EXPECT_EQ(program.last().back().cause.reason, Reason::device_budget);
  EXPECT_EQ(count_moves(program.last(), Placement::host), 0U);
}

Rule rule_for(Bytes least, RuleAction action) {
  Rule rule;
  rule.name = "r";
  rule.number = 1;
  rule.match.size_least = least;
  rule.action = action;
  return rule;
}

// A refusal names the rule that keeps memory plain, and no other.
TEST(Backing, ARefusalNamesTheRuleThatKeepsItPlain) {
  RuleAction plain, host, managed;
  plain.backing = Backing::device;
  host.place = RulePlace::host;
  managed.backing = Backing::managed;
  for (const AllocationKind kind : {AllocationKind::linear, AllocationKind::stretchable}) {
    ScriptedProgram kept(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB, {rule_for(2_MiB, plain)});
    EXPECT_FALSE(kept.allocate(2_GiB, kind));
    EXPECT_EQ(kept.last().front().cause.rule, 1);
  }
  ScriptedProgram small(with(ModeName::arrival, 1_MiB), 64_GiB, 256_GiB, {rule_for(Bytes(), host)});
  EXPECT_FALSE(small.allocate(Bytes(1536 * 1024)));
  EXPECT_EQ(small.last().front().cause.rule, 0) << "too small to spill in any case";
  Settings settings = with(ModeName::arrival, 1_GiB);
  settings.spill_vmm = Switch::off;
  ScriptedProgram mapped(settings, 64_GiB, 256_GiB, {rule_for(2_MiB, managed)});
  EXPECT_FALSE(mapped.allocate(2_GiB, AllocationKind::stretchable));
  EXPECT_EQ(mapped.last().front().cause.rule, 0) << "memory.spill_vmm keeps it plain";
}

TEST(Backing, OomFirstRefusesOnceBeforeAnythingSpills) {
  Settings settings = with(ModeName::arrival, 1_GiB);
  settings.oom_first = true;
  ScriptedProgram program(settings, 64_GiB, 256_GiB);
  EXPECT_TRUE(program.allocate(1_GiB));
  EXPECT_FALSE(program.allocate(64_MiB));
  EXPECT_EQ(program.last().front().cause.reason, Reason::oom_first);
  EXPECT_TRUE(program.allocate(64_MiB));
}

// Raw memory has no place when it is asked for; it spills only where all of it does not fit.
TEST(Backing, OomFirstOfRawMemoryWaitsUntilItDoesNotFit) {
  Settings settings = with(ModeName::demand, 1_GiB);
  settings.oom_first = true;
  ScriptedProgram program(settings, 64_GiB, 256_GiB);
  EXPECT_TRUE(program.allocate(64_MiB));
  EXPECT_TRUE(program.allocate(960_MiB));
  EXPECT_FALSE(program.allocate(64_MiB));
  EXPECT_EQ(program.last().front().cause.reason, Reason::oom_first);
  EXPECT_TRUE(program.allocate(64_MiB));
}

TEST(Backing, AFailedPlainAllocationTurnsTheRunToManaged) {
  ScriptedProgram program(with(ModeName::arrival, std::nullopt), 64_GiB, 256_GiB);
  EXPECT_FALSE(program.allocate(4_MiB, AllocationKind::linear, DriverResult{2}));
  EXPECT_EQ(program.totals().plain, Bytes());
  EXPECT_EQ(program.backing(program.allocate(4_MiB)), Backing::managed);
}

TEST(Arrival, FillsTheWindowThenTheHostAndSplitsAtAChunk) {
  ScriptedProgram program(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB);
  program.allocate(768_MiB);
  program.allocate(512_MiB);
  program.finish_all();
  EXPECT_EQ(program.totals().resident, 1_GiB);
  EXPECT_EQ(program.totals().on_host, 256_MiB);
  EXPECT_EQ(program.on_card(), 1_GiB);
}

// A kernel that is first at memory not populated takes page faults; nothing shall have to.
TEST(Arrival, TheProgramWaitsForItsPopulationOnTheHostUnlessItIsHuge) {
  ScriptedProgram program(with(ModeName::arrival, 64_MiB), 64_GiB, 256_GiB);
  const Address usual = program.allocate(4_GiB);
  EXPECT_EQ(program.open_moves(), 0U) << "the driver's answer comes after the population";
  EXPECT_EQ(program.backing(usual), Backing::managed);
  EXPECT_EQ(program.totals().on_host, 4_GiB - 64_MiB);
  program.allocate(4_GiB + 2_MiB);
  EXPECT_GT(program.open_moves(), 0U);
}

// Promised a place in HBM, and plain memory is promised one before the driver has answered: what makes room for that
// has not left when the first is settled.
TEST(Arrival, WhatFindsItsPlaceNotFreeYetIsPopulatedOnTheHost) {
  for (const ModeName mode : {ModeName::arrival, ModeName::adaptive}) {
    ScriptedProgram program(with(mode, 64_MiB), 64_GiB, 256_GiB);
    program.allocate(40_MiB);
    program.send(AllocationRequested{{100}, {0}, 24_MiB, AllocationKind::linear, {}, {}, false});
    program.send(AllocationRequested{{101}, {0}, 1_MiB, AllocationKind::linear, {}, {}, false});
    ASSERT_EQ(count_moves(program.last(), Placement::host), 1U) << "room for the plain memory is on its way";
    program.send(AllocationSettled{{100}, {0x7e0000000000}, 24_MiB, Backing::managed, {}});
    ASSERT_EQ(count_moves(program.last(), Placement::device), 0U);
    EXPECT_EQ(count_moves(program.last(), Placement::host), 1U)
        << "else its first touch brings it in, and nobody counts";
    const auto totals = program.totals();
    EXPECT_LE(totals.resident + totals.arriving + totals.plain, 64_MiB + 2_MiB)
        << "what leaves counts until it has left";
  }
}

TEST(Arrival, SendsTheLastComeOutWhenPlainMemoryNeedsRoom) {
  ScriptedProgram program(with(ModeName::arrival, 1_GiB), 64_GiB, 256_GiB);
  program.allocate(512_MiB);
  const Address last = program.allocate(512_MiB);
  program.finish_all();
  EXPECT_TRUE(program.allocate(100_MiB, AllocationKind::stream_ordered));
  EXPECT_EQ(program.totals().resident, 924_MiB);
  const auto moved = std::find_if(program.decisions().rbegin(), program.decisions().rend(),
                                  [](const Decision& d) { return std::holds_alternative<MoveRange>(d.body); });
  EXPECT_EQ(std::get<MoveRange>(moved->body).allocation, program.id(last));
}

TEST(Demand, EvictsTheLeastRecentlyLaunchedBeforeTheLaunch) {
  ScriptedProgram program(with(ModeName::demand, 64_MiB), 64_GiB, 256_GiB);
  const Address a = program.allocate(32_MiB);
  const Address b = program.allocate(32_MiB);
  const Address c = program.allocate(32_MiB);
  program.launch({a});
  program.launch({b});
  program.launch({a});
  EXPECT_EQ(count_moves(program.decisions(), Placement::host), 0U);
  program.launch({c});
  ASSERT_EQ(count_moves(program.decisions(), Placement::host), 1U);
  for (const Decision& decision : program.decisions()) {
    const auto* move = std::get_if<MoveRange>(&decision.body);
    if (move == nullptr) continue;
    EXPECT_EQ(move->allocation, program.id(b));
    EXPECT_EQ(move->after, LaunchNumber{2});
    EXPECT_EQ(move->urgency, Urgency::blocking);
  }
  EXPECT_EQ(program.totals().resident, 64_MiB);
}

TEST(Demand, WhatOneLaunchTouchesBeyondTheWindowIsMappedInPlace) {
  ScriptedProgram program(with(ModeName::demand, 64_MiB), 64_GiB, 256_GiB);
  const Address a = program.allocate(96_MiB);
  program.launch({a});
  EXPECT_EQ(program.totals().resident, 64_MiB);
  EXPECT_EQ(program.totals().on_host, 32_MiB);
  const auto mapped = std::count_if(program.decisions().begin(), program.decisions().end(), [](const Decision& d) {
    return d.cause.reason == Reason::over_working_set && std::holds_alternative<AdviseRange>(d.body);
  });
  EXPECT_GT(mapped, 0);
}

// Before any launch the current use has no launch number of its own, and its pages must not make room for each other.
TEST(Demand, WhatOneFillOrCopyTouchesBeyondTheWindowIsMappedInPlace) {
  for (const ModeName mode : {ModeName::demand, ModeName::alloc_prefetch}) {
    ScriptedProgram program(with(mode, 64_MiB), 64_GiB, 256_GiB);
    const Address a = program.allocate(200_MiB);
    program.fill(a, 200_MiB);
    EXPECT_LE(program.on_card(), 64_MiB);
    EXPECT_EQ(program.totals().resident, program.on_card());
    const Address b = program.allocate(100_MiB);
    program.copy(b, a, 100_MiB);
    EXPECT_LE(program.on_card(), 64_MiB);
    EXPECT_EQ(program.totals().resident, program.on_card());
  }
}

// The baseline is a least-recently-used order also while a program only fills its memory.
TEST(Demand, AFillSendsOutWhatEarlierOnesTouched) {
  ScriptedProgram program(with(ModeName::demand, 64_MiB), 64_GiB, 256_GiB);
  const Address a = program.allocate(48_MiB);
  const Address b = program.allocate(48_MiB);
  program.fill(a, 48_MiB);
  program.fill(b, 48_MiB);
  EXPECT_EQ(program.on_card(b), 48_MiB);
  EXPECT_EQ(program.on_card(a), 16_MiB);
}

TEST(AllocPrefetch, PrefetchesOnceAtAllocation) {
  ScriptedProgram program(with(ModeName::alloc_prefetch, 64_MiB), 64_GiB, 256_GiB);
  program.allocate(48_MiB);
  EXPECT_EQ(program.totals().resident, 48_MiB);
  program.allocate(48_MiB);
  EXPECT_EQ(program.totals().resident, 64_MiB);
}

TEST(Frees, CancelOpenMovesAndCountOnlyWhenSettled) {
  ScriptedProgram program(with(ModeName::arrival, 64_MiB), 64_GiB, 256_GiB);
  const Address a = program.allocate(5_GiB);  // so large that its population is not waited for
  ASSERT_GT(program.open_moves(), 0U);
  program.send(FreeRequested{program.id(a), {}});
  ASSERT_EQ(program.last().size(), 1U);
  EXPECT_TRUE(std::holds_alternative<CancelMoves>(program.last().front().body));
  EXPECT_EQ(program.totals().managed, 5_GiB);
  program.send(Freed{program.id(a), DriverResult{719}});
  EXPECT_EQ(program.totals().managed, 5_GiB);
  program.free(a);
  EXPECT_EQ(program.totals().managed, Bytes());
  EXPECT_EQ(program.totals().resident + program.totals().arriving, Bytes());
}

TEST(Engine, IgnoresImpossibleEvents) {
  ScriptedProgram program(with(ModeName::arrival, 64_MiB), 64_GiB, 256_GiB);
  program.send(Freed{{77}, {}});
  program.send(AllocationSettled{{78}, {1}, 1_MiB, Backing::managed, {}});
  program.send(Launched{{99}, {}});
  program.send(MoveFinished{{1234}, MoveOutcome::done, {}, {}});
  EXPECT_EQ(program.engine().ignored_events(), 3U);
  EXPECT_EQ(program.engine().check_invariants(), "");
}

// Random programs, random order and outcome of moves: the promises hold after each event, in every mode, also where one
// allocation or one launch alone is larger than the budget, and where the host is nearly full.
struct Machine {
  Bytes budget;
  Bytes host;
};
class RandomProgram : public ::testing::TestWithParam<std::tuple<ModeName, unsigned, Machine>> {};

TEST_P(RandomProgram, KeepsEveryPromise) {
  const auto [mode, seed, machine] = GetParam();
  std::mt19937 random(seed);
  Settings settings = with(mode, machine.budget);
  settings.host_budget = SizeOrShare{machine.host};
  ScriptedProgram program(settings, 1_GiB, 4_GiB);
  std::vector<Address> live;
  const int first_launch = seed % 2 == 0 ? 0 : 1000;  // half of the programs only copy and fill at first
  const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (int step = 0; step < 2000; ++step) {
    const std::size_t what = pick(100);
    if (what < 25) {
      const Bytes bytes(pick(20) == 0 ? 200U << 20 : 1 + (pick(24) << 20));
      const auto kind = pick(10) == 0 ? AllocationKind::stream_ordered : AllocationKind::linear;
      const Address address = program.allocate(bytes, kind, DriverResult{pick(20) == 0 ? 2 : 0});
      if (address) live.push_back(address);
    } else if (what < 45 && !live.empty()) {
      const std::size_t which = pick(live.size());
      program.free(live[which]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (what < 80 && !live.empty() && step >= first_launch) {
      std::vector<Address> arguments;
      for (std::size_t n = 1 + pick(4); n > 0; --n) arguments.push_back(live[pick(live.size())]);
      program.launch(arguments, {static_cast<std::uint32_t>(1 + pick(3))});
    } else if (what < 84 && !live.empty()) {
      program.copy(live[pick(live.size())], live[pick(live.size())], Bytes(1 + (pick(40) << 20)));
    } else if (what < 88 && !live.empty()) {
      program.fill(live[pick(live.size())], Bytes(1 + (pick(250) << 20)));
    } else {
      program.finish_one(pick(5) == 0 ? MoveOutcome::failed : MoveOutcome::done);
    }
    ASSERT_EQ(program.engine().check_invariants(), "") << "step " << step;
    const DeviceTotals totals = program.totals();
    ASSERT_LE(totals.resident + totals.arriving, totals.window) << "step " << step;
    ASSERT_LE(program.on_card() + totals.plain + totals.reserved, totals.budget) << "step " << step;
  }
  EXPECT_EQ(program.engine().ignored_events(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, RandomProgram,
                         ::testing::Combine(::testing::Values(ModeName::demand, ModeName::alloc_prefetch,
                                                              ModeName::arrival, ModeName::adaptive),
                                            ::testing::Range(1U, 6U),
                                            ::testing::Values(Machine{96_MiB, 512_MiB}, Machine{13_MiB, 300_MiB},
                                                              Machine{96_MiB, 60_MiB})));

}  // namespace
}  // namespace spillway::policy
