// Launches one at a time: first come, first served, and given up only where one keeps the turn.
#include "shim/launch_turns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace spillway::shim {
namespace {

using std::chrono::milliseconds;

TEST(LaunchTurns, OneAtATimeInOrder) {
  LaunchTurns turns(milliseconds(60'000));
  constexpr int kRounds = 500;
  int inside = 0, most = 0;
  std::vector<int> taken(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_EQ(turns.take(), LaunchTurns::Turn::mine);
        most = std::max(most, ++inside);
        ++taken[i];
        --inside;
        turns.give();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  for (const int each : taken) EXPECT_EQ(each, kRounds);
}

// One thread takes its next turn as soon as it has given the last: who waits comes in between all the same.
TEST(LaunchTurns, WhoLaunchesWithoutAPauseKeepsNobodyWaiting) {
  LaunchTurns turns(milliseconds(60'000));
  ASSERT_EQ(turns.take(), LaunchTurns::Turn::mine);
  std::atomic<bool> waits{false}, had{false};
  std::thread other([&] {
    waits = true;
    ASSERT_EQ(turns.take(), LaunchTurns::Turn::mine);
    had = true;
    turns.give();
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(50));  // it is in line by now
  turns.give();
  ASSERT_EQ(turns.take(), LaunchTurns::Turn::mine);
  EXPECT_TRUE(had);
  turns.give();
  other.join();
}

// A line that moves is no reason to give up, however long the wait.
TEST(LaunchTurns, AreGivenUpOnlyWhereOneIsKept) {
  LaunchTurns turns(milliseconds(2'000));
  ASSERT_EQ(turns.take(), LaunchTurns::Turn::mine);
  std::vector<std::thread> line;
  std::atomic<int> mine{0};
  for (int i = 0; i < 5; ++i) {
    line.emplace_back([&] {
      if (turns.take() != LaunchTurns::Turn::mine) return;
      ++mine;
      std::this_thread::sleep_for(milliseconds(500));
      turns.give();
    });
  }
  std::this_thread::sleep_for(milliseconds(500));
  turns.give();
  for (std::thread& thread : line) thread.join();
  EXPECT_EQ(mine, 5) << "the last waited 2.5 s";
  ASSERT_EQ(turns.take(), LaunchTurns::Turn::mine);
  std::thread waits([&] { EXPECT_EQ(turns.take(), LaunchTurns::Turn::given_up); });
  waits.join();
  EXPECT_EQ(turns.take(), LaunchTurns::Turn::none);
  turns.give();
  EXPECT_EQ(turns.take(), LaunchTurns::Turn::none);
}

}  // namespace
}  // namespace spillway::shim
