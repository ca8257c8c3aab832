// Adaptive with a program that a test writes call by call.
#include <gtest/gtest.h>

#include <vector>

#include "tests/policy/scripted_program.hpp"

namespace spillway::policy {
namespace {

// Replays of a graph of some kernels until what it uses is in HBM, in place of what nothing uses; 80 if it never is.
int replays_until_learned(std::uint32_t count) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
  const Address cold = program.allocate(64_MiB);
  const Address hot = program.allocate(64_MiB);
  program.finish_all();
  EXPECT_LT(program.on_card(hot), 64_MiB);
  constexpr std::uint32_t kThreads = 1U << 22;  // 16 bytes each
  std::vector<LaunchShapeId> kernels;
  for (std::uint32_t i = 0; i < count; ++i) {
    kernels.push_back({100 + i});
    program.send(LaunchShapeSeen{kernels.back(), {7 + i}, kThreads, {{0, hot}}});
  }
  program.send(GraphSeen{{1}, kernels});
  int step = 0;
  for (; step < 80 && program.on_card(hot) < 64_MiB; ++step) {
    program.launch({cold}, {2});
    program.send(GraphLaunched{{1}, {}});
    program.finish_all();
  }
  EXPECT_LE(program.on_card(), 96_MiB);
  return step;
}

// A graph is a whole step: nobody can wait for dozens of them before the first plan.
TEST(Graphs, AreLearnedWithinADozenReplays) {
  for (const std::uint32_t count : {12U, 200U, 600U})
    EXPECT_LE(replays_until_learned(count), 12) << count << " kernels";
}

// A plan's moves are open when what they move is freed, and others of the plan have been waiting for them.
TEST(Plans, GoOnWhenWhatIsMovedIsFreed) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  for (const MoveOutcome outcome : {MoveOutcome::cancelled, MoveOutcome::done}) {
    testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
    const Address cold = program.allocate(96_MiB);
    const Address hot = program.allocate(64_MiB);
    const Address warm = program.allocate(64_MiB);
    const Address small = program.allocate(4_MiB);
    const auto step = [&] {
      for (int use = 0; use < 4; ++use) program.launch({hot}, {1});
      program.launch({warm}, {2});
      program.launch({small}, {3});
    };
    int steps = 0;
    for (; steps < 400 && program.open_moves() == 0; ++steps) step();
    ASSERT_GT(program.open_moves(), 0U) << "no plan";
    ASSERT_EQ(program.on_card(hot), 0_MiB);
    program.free(cold, outcome);
    for (int more = 0; more < 400; ++more) {
      step();
      program.finish_all();
    }
    EXPECT_EQ(program.on_card(hot), 64_MiB) << static_cast<int>(outcome);
    EXPECT_LE(program.on_card(), 96_MiB);
  }
}

// What is read by every block of a kernel comes last: activations, workspaces. The window is full of weights then.
TEST(LateMemory, ThatIsSmallSendsLargerOnesOut) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  for (const ModeName mode : {ModeName::adaptive, ModeName::arrival}) {
    settings.mode = mode;
    testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
    program.allocate(64_MiB);
    const Address last_weights = program.allocate(64_MiB);
    ASSERT_EQ(program.on_card(), 96_MiB);
    std::vector<Address> small;
    for (int i = 0; i < 8; ++i) small.push_back(program.allocate(i % 2 == 0 ? 2_MiB : 4_MiB));
    for (const Address address : small)
      EXPECT_EQ(program.on_card(address), mode == ModeName::arrival ? 0_MiB : program.bytes(address));
    EXPECT_LE(program.on_card(), 96_MiB);
    EXPECT_EQ(program.on_card(last_weights), mode == ModeName::arrival ? 32_MiB : 8_MiB);
    // They are the last to leave for plain memory as well.
    ASSERT_NE(program.allocate(1_MiB), Address{});
    for (const Address address : small)
      EXPECT_EQ(program.on_card(address), mode == ModeName::arrival ? 0_MiB : program.bytes(address));
  }
}

TEST(LateMemory, ThatIsLargeHasAnEighthOfTheWindow) {
  Settings settings;
  settings.device_budget = SizeOrShare{128_MiB};
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
  program.allocate(160_MiB);
  const Address workspace = program.allocate(12_MiB);
  const Address more = program.allocate(12_MiB);
  EXPECT_EQ(program.on_card(workspace), 12_MiB);
  EXPECT_EQ(program.on_card(more), 0_MiB);
  EXPECT_EQ(program.on_card(), 128_MiB);
  // What it leaves behind is room like any other, and takes nothing of the eighth.
  program.free(workspace);
  EXPECT_EQ(program.on_card(program.allocate(12_MiB)), 12_MiB);
  EXPECT_EQ(program.on_card(), 128_MiB);
}

TEST(LateMemory, OfEachDeviceHasAnEighthOfItsWindow) {
  Settings settings;
  settings.device_budget = SizeOrShare{128_MiB};
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
  program.send(DeviceSeen{{1}, {}, 64_GiB, 64_GiB, true, "Second"});
  program.send(DeviceReserved{{1}, {}, "a context that takes nothing"});
  for (const DeviceIndex device : {DeviceIndex{0}, DeviceIndex{1}}) {
    program.allocate(160_MiB, AllocationKind::linear, {}, device);
    EXPECT_EQ(program.on_card(program.allocate(12_MiB, AllocationKind::linear, {}, device)), 12_MiB) << device.value;
    EXPECT_EQ(program.on_card(program.allocate(12_MiB, AllocationKind::linear, {}, device)), 0_MiB) << device.value;
  }
}

// Nothing is won where each sends the one before it out.
TEST(LateMemory, ThatIsSmallSendsNoSmallOnesOut) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
  std::vector<Address> small;
  for (int i = 0; i < 64; ++i) small.push_back(program.allocate(4_MiB));
  for (std::size_t i = 0; i < small.size(); ++i) EXPECT_EQ(program.on_card(small[i]), i < 24 ? 4_MiB : 0_MiB) << i;
  EXPECT_EQ(program.totals().moved_out, 0_MiB);
}

Rule for_order(std::uint32_t order) {
  Rule rule;
  rule.number = static_cast<std::uint16_t>(order);
  rule.match.order_first = rule.match.order_last = {order};
  return rule;
}

// What a rule keeps leaves for plain memory, after all else, and for nothing else.
TEST(LateMemory, LeavesWhatARuleKeepsWhereItIs) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  Rule keep = for_order(2);
  keep.action.place = RulePlace::device;
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB, {keep});
  const Address weights = program.allocate(16_MiB);
  const Address kept = program.allocate(128_MiB);
  std::vector<Address> small;
  for (int i = 0; i < 8; ++i) small.push_back(program.allocate(4_MiB));
  EXPECT_EQ(program.on_card(weights), 0_MiB);
  EXPECT_EQ(program.on_card(kept), 80_MiB);
  for (std::size_t i = 0; i < small.size(); ++i) EXPECT_EQ(program.on_card(small[i]), i < 4 ? 4_MiB : 0_MiB) << i;
  ASSERT_TRUE(program.allocate(1_MiB));
  EXPECT_EQ(program.on_card(kept), 80_MiB);
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(program.allocate(1_MiB));
  EXPECT_LT(program.on_card(kept), 80_MiB);
}

// A rule of kernels says nothing before a plan was made.
TEST(LateMemory, LeavesWhatARuleOfKernelsKeepsWhereItIs) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  Rule keep;
  keep.number = 1;
  keep.match.kernel = "keeper";
  keep.action.place = RulePlace::device;
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB, {keep});
  program.send(FunctionSeen{{1}, "keeper"});
  program.send(FunctionSeen{{2}, "worker"});
  const Address weights = program.allocate(48_MiB);
  const Address kept = program.allocate(64_MiB);
  for (int i = 0; i < 600; ++i) {
    program.pass(Nanoseconds(1'000'000));
    for (int launches = 0; launches < 19; ++launches) program.launch({weights}, {2});
    program.launch({kept}, {1});
    program.finish_all();
  }
  ASSERT_EQ(program.on_card(kept), 64_MiB);
  for (int i = 0; i < 12; ++i) program.allocate(4_MiB);
  EXPECT_EQ(program.on_card(kept), 64_MiB);
  EXPECT_EQ(program.on_card(weights), 0_MiB);
}

TEST(RoomForPlainMemory, IsMadeInTheOrderOfThePolicyFile) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  Rule first = for_order(1), last = for_order(3);
  first.action.evict = EvictClass::first;
  last.action.evict = EvictClass::last;
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB, {first, last});
  std::vector<Address> in_order;
  for (int i = 0; i < 3; ++i) in_order.push_back(program.allocate(32_MiB));
  const auto on_card = [&] {
    std::vector<Bytes> all;
    for (const Address address : in_order) all.push_back(program.on_card(address));
    return all;
  };
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(program.allocate(1_MiB));
  EXPECT_EQ(on_card(), (std::vector<Bytes>{2_MiB, 32_MiB, 32_MiB}));
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(program.allocate(1_MiB));
  EXPECT_EQ(on_card(), (std::vector<Bytes>{0_MiB, 2_MiB, 32_MiB}));
}

// Batches are for calls to be few: a host with less room than one takes what it has room for, and what cannot go is
// told nothing.
TEST(RoomForPlainMemory, IsMadeAsFarAsTheHostHasRoom) {
  Settings settings;
  settings.device_budget = SizeOrShare{1_GiB};
  settings.host_budget = SizeOrShare{6_MiB};
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
  for (int i = 0; i < 16; ++i) program.allocate(64_MiB);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(program.allocate(2_MiB, AllocationKind::stream_ordered)) << i;
  ASSERT_FALSE(program.allocate(2_MiB, AllocationKind::stream_ordered));
  EXPECT_EQ(program.last().size(), 1U);
  ASSERT_FALSE(program.allocate(2_MiB));
  EXPECT_EQ(program.last().size(), 1U);
}

// memory.oom_first: the program hears of it before anything spills.
TEST(LateMemory, SendsNothingOutBeforeTheFirstRefusal) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  settings.oom_first = true;
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
  program.allocate(96_MiB);
  EXPECT_EQ(program.allocate(2_MiB), Address{});
  EXPECT_EQ(program.on_card(), 96_MiB);
  const Address again = program.allocate(2_MiB);
  ASSERT_NE(again, Address{});
  EXPECT_EQ(program.on_card(again), 2_MiB);
  // It has heard of this overflow, however often others leave for what comes.
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(program.allocate(2_MiB)) << i;
}

// The program's thread waits for the room, so a piece leaves only as far as it has to.
TEST(RoomForPlainMemory, TakesNoMoreOfAPieceThanItNeeds) {
  Settings settings;
  settings.device_budget = SizeOrShare{96_MiB};
  testing::ScriptedProgram program(settings, 64_GiB, 256_GiB);
  const Address often = program.allocate(64_MiB);
  const Address seldom = program.allocate(64_MiB);
  for (int step = 0; step < 400; ++step) {
    for (int use = 0; use < 3; ++use) program.launch({often}, {1});
    program.launch({often, seldom}, {2});
    program.finish_all();
  }
  ASSERT_EQ(program.on_card(), program.totals().window);
  for (int i = 0; i < 4; ++i) {
    const Bytes before = program.on_card();
    ASSERT_NE(program.allocate(1_MiB), Address{});  // plain, a block of 2 MiB of its own
    EXPECT_EQ(before - program.on_card(), 2_MiB) << i;
  }
  EXPECT_EQ(program.on_card(often), 64_MiB);
}

}  // namespace
}  // namespace spillway::policy
