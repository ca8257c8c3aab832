// The simulated machine's lock: who comes back at once does not get it before who has waited.
#include "tools/simulated_device/first_come_mutex.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace spillway::simulated {
namespace {

using namespace std::chrono_literals;

TEST(FirstComeMutex, WhoHasWaitedComesBeforeWhoComesBack) {
  // A thread that is not run in time does not wait yet. A std::mutex: never or once.
  constexpr int kRounds = 20, kLeast = 10;
  int first = 0;
  for (int round = 0; round < kRounds; ++round) {
    FirstComeMutex mutex;
    std::atomic<bool> coming = false;
    bool had = false;  // mutex
    mutex.lock();
    std::thread other([&] {
      coming = true;
      mutex.lock();
      had = true;
      mutex.unlock();
    });
    while (!coming) std::this_thread::yield();
    std::this_thread::sleep_for(10ms);
    mutex.unlock();
    mutex.lock();
    first += had ? 1 : 0;
    mutex.unlock();
    other.join();
  }
  EXPECT_GE(first, kLeast);
}

TEST(FirstComeMutex, WhoIsCancelledInTheLineStaysInIt) {
  struct Shared {
    FirstComeMutex mutex;
    std::atomic<bool> cancelled = false;
    std::atomic<bool> had = false;
  } shared;
  const auto waits = [](void* of) -> void* {
    auto& all = *static_cast<Shared*>(of);
    while (!all.cancelled) continue;
    all.mutex.lock();
    all.had = true;
    all.mutex.unlock();
    for (;;) pthread_testcancel();
  };
  pthread_t other{};
  void* result = nullptr;
  shared.mutex.lock();
  ASSERT_EQ(pthread_create(&other, nullptr, waits, &shared), 0);
  pthread_cancel(other);
  shared.cancelled = true;
  std::this_thread::sleep_for(10ms);  // else there may be no line
  shared.mutex.unlock();
  pthread_join(other, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(shared.had);
}

TEST(FirstComeMutex, OneAtATime) {
  FirstComeMutex mutex;
  constexpr int kThreads = 4, kEach = 2'000;
  int inside = 0, most = 0, times = 0;  // mutex
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int time = 0; time < kEach; ++time) {
        mutex.lock();
        most = std::max(most, ++inside);
        if (time % 64 == 0) std::this_thread::yield();
        ++times;
        --inside;
        mutex.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(times, kThreads * kEach);
}

}  // namespace
}  // namespace spillway::simulated
