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
