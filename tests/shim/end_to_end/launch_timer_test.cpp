// Pairs of events around launches, against the simulated driver: what is sampled and what is not, contexts that end,
// and a driver that refuses.
#include "shim/launch_timer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"
#include "shim/recorder.hpp"
#include "tests/shim/end_to_end/launching_place.hpp"
#include "tools/simulated_device/inspection.hpp"

namespace spillway::shim {
namespace {

using namespace std::chrono_literals;
using policy::LaunchCount;
using policy::LaunchNumber;

// As the launch path does it.
template <class Forward>
CUresult timed_launch(LaunchTimer::Pair& pair, const Forward& forward) {
  LaunchTimer::begin(pair);
  const CUresult result = forward();
  launch_timer().end(pair, result);
  return result;
}

constexpr LaunchCount kWindow{512};
constexpr std::size_t kMostContexts = 8;

bool wanted() { return (launch_path().events.load(std::memory_order_acquire) & kTimesWanted) != 0; }

class LaunchTimerTest : public testing::Test {
 protected:
  // `faults` can be set once a process, as the driver reads it at its start; ctest runs each test in one of its own.
  void start(const char* faults = "") {
    setenv("SPILLWAY_MODE", "off", 1);
    setenv("SPILLWAY_TRACE_PATH", "", 1);
    setenv("SPILLWAY_SIMULATED_MEMORY", "64MiB", 1);
    setenv("SPILLWAY_SIMULATED_KERNELS", TEST_TWINS, 1);
    setenv("SPILLWAY_SIMULATED_FAULTS", faults, 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    place_.make();
  }
  // The first launch says that there is such a context, the next ones are sampled.
  void open() {
    timer_.open(kWindow);
    EXPECT_EQ(take(place_.stream), nullptr);
    timer_.make_pairs();
  }
  // The pair of the next sampled launch; null if none of many is sampled.
  LaunchTimer::Pair* take(CUstream stream, bool per_thread = false) {
    LaunchTimer::Pair* pair = nullptr;
    for (int i = 0; i < 64 && pair == nullptr; ++i) pair = timer_.take(stream, per_thread);
    return pair;
  }
  // A sampled launch as the launch path makes it, and the policy thread.
  void launch(std::uint64_t number, CUstream stream, bool per_thread = false) {
    LaunchTimer::Pair* pair = take(stream, per_thread);
    ASSERT_NE(pair, nullptr);
    const TimerTicket ticket = LaunchTimer::ticket(*pair);
    const CUstream meant = stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream;
    ASSERT_EQ(timed_launch(*pair, [&] { return place_.launch(meant); }), CUDA_SUCCESS);
    timer_.told(ticket, {number});
    // So long that the call itself is short beside it, and the host's clock runs ahead of the virtual one.
    std::this_thread::sleep_for(1ms);
  }
  bool collect() {
    for (int i = 0; i < 100; ++i) {
      if (timer_.collect()) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }
  std::set<std::uint64_t> timed() {
    std::set<std::uint64_t> launches;
    for (const policy::KernelTimed& time : timer_.take_times()) {
      EXPECT_GT(time.duration, policy::Nanoseconds(4000)) << "less than a launch";
      EXPECT_LT(time.duration, policy::Nanoseconds(20'000));
      EXPECT_TRUE(launches.insert(time.launch.value).second);
    }
    return launches;
  }

  LaunchTimer& timer_ = launch_timer();
  LaunchingPlace place_;
};

TEST_F(LaunchTimerTest, EveryKindOfStreamIsTimed) {
  start();
  open();
  std::uint64_t number = 0;
  for (int round = 0; round < 10; ++round) {
    launch(++number, place_.stream);
    launch(++number, nullptr);
    launch(++number, nullptr, true);
    launch(++number, CU_STREAM_LEGACY, true);
    launch(++number, CU_STREAM_PER_THREAD);
  }
  timer_.close();
  EXPECT_FALSE(wanted());
  ASSERT_TRUE(collect());
  const std::set<std::uint64_t> launches = timed();
  // One whose call was held up on a busy machine is left out.
  EXPECT_GE(launches.size(), 25U);
  EXPECT_LE(*launches.rbegin(), number);
  std::set<std::uint64_t> kinds;
  for (const std::uint64_t launch : launches) kinds.insert(launch % 5);
  EXPECT_EQ(kinds.size(), 5U);
  EXPECT_EQ(timer_.failure(), std::nullopt);
}

TEST_F(LaunchTimerTest, OneInSoManyIsSampledAndNoMoreThanThereArePairs) {
  start();
  open();
  std::uint64_t taken = 0;
  for (int i = 0; i < 400; ++i) taken += timer_.take(place_.stream, false) != nullptr ? 1U : 0U;
  EXPECT_NEAR(static_cast<double>(taken), 100, 5);
  for (int i = 0; i < 4000; ++i) taken += timer_.take(place_.stream, false) != nullptr ? 1U : 0U;
  EXPECT_EQ(taken, LaunchTimer::kPairs);
  // A pair that is out is nobody else's in the next window.
  timer_.close();
  timer_.open(LaunchCount(100'000));
  EXPECT_EQ(take(place_.stream), nullptr);
}

TEST_F(LaunchTimerTest, NothingIsRecordedInACapture) {
  start();
  open();
  ASSERT_NE(take(place_.stream), nullptr);
  launch_path().captures = 1;  // of whomever
  EXPECT_EQ(take(place_.stream), nullptr);
  launch_path().captures = 0;
  // One that nobody told us of.
  ASSERT_EQ(real_function<HookId::cuStreamBeginCapture_v2>()(place_.stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(take(place_.stream), nullptr);
  CUgraph graph = nullptr;
  EXPECT_EQ(real_function<HookId::cuStreamEndCapture>()(place_.stream, &graph), CUDA_SUCCESS);
  EXPECT_NE(take(place_.stream), nullptr);
}

TEST_F(LaunchTimerTest, ReadingDoesNotDisturbACapture) {
  start();
  open();
  for (std::uint64_t number = 1; number <= 5; ++number) launch(number, place_.stream);
  CUstream other = nullptr;
  ASSERT_EQ(driver().cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(place_.launch(other), CUDA_SUCCESS);
  std::thread reader([this] { EXPECT_TRUE(collect()); });
  reader.join();
  timer_.close();
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
  EXPECT_GE(timed().size(), 3U);
}

TEST_F(LaunchTimerTest, ALaunchThatTheDriverRefusesIsNone) {
  start();
  open();
  LaunchTimer::Pair* pair = take(place_.stream);
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(timed_launch(*pair, [&] { return place_.launch(place_.stream, 0); }), CUDA_ERROR_INVALID_VALUE);
  ASSERT_TRUE(collect());
  EXPECT_TRUE(timed().empty());
  EXPECT_EQ(timer_.failure(), std::nullopt);
}

TEST_F(LaunchTimerTest, WhatIsNotToldIsWaitedForAndATicketOfBeforeIsNobodys) {
  start();
  open();
  LaunchTimer::Pair* pair = take(place_.stream);
  ASSERT_NE(pair, nullptr);
  const TimerTicket ticket = LaunchTimer::ticket(*pair);
  ASSERT_EQ(timed_launch(*pair, [&] { return place_.launch(place_.stream); }), CUDA_SUCCESS);
  EXPECT_FALSE(collect());
  EXPECT_TRUE(timed().empty());
  timer_.begin_context_end(place_.context);
  EXPECT_EQ(take(place_.stream), nullptr) << "it is ending";
  timer_.end_context_end(place_.context, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_FALSE(timer_.collect()) << "it has not ended";
  timer_.told(ticket, {});  // as no launch
  EXPECT_TRUE(collect());
  EXPECT_TRUE(timed().empty());
  timer_.told(ticket, {1});  // too late
  LaunchTimer::Pair* again = nullptr;
  timer_.open(kWindow);
  while (again != pair) again = take(place_.stream);
  ASSERT_EQ(timed_launch(*again, [&] { return place_.launch(place_.stream); }), CUDA_SUCCESS);
  EXPECT_NE(LaunchTimer::ticket(*again), ticket);
  EXPECT_FALSE(collect()) << "nobody has told of this one";
}

// As where its thread is cancelled in the driver's call.
TEST_F(LaunchTimerTest, APairWhoseLaunchNeverComesBackIsGivenBack) {
  start();
  open();
  {
    Timed timed(take(place_.stream));
    timed.begin();
  }
  timer_.close();
  EXPECT_TRUE(collect());
  EXPECT_TRUE(timer_.take_times().empty());
}

TEST_F(LaunchTimerTest, AQueryThatHangsHoldsUpNoEndOfAContext) {
  start("cuEventQuery:1:delay=10000ms");
  open();
  launch(1, place_.stream);
  std::atomic<bool> came_back{false};
  std::thread collects([&] {
    timer_.collect();
    came_back = true;
  });
  while (spillway_simulated_calls("cuEventQuery") == 0) std::this_thread::yield();
  for (int i = 0; i < 2; ++i) {
    timer_.begin_context_end(place_.context);
    EXPECT_EQ(timer_.failure(), CUDA_ERROR_TIMEOUT);
    EXPECT_FALSE(wanted());
    timer_.end_context_end(place_.context, CUDA_SUCCESS);
  }
  EXPECT_FALSE(came_back) << "it was waited for";
  collects.join();
  EXPECT_TRUE(timer_.collect()) << "nothing more comes";
}

TEST_F(LaunchTimerTest, ContextsThatEndTakeTheirEventsAlong) {
  start();
  // More of them than are timed at a time.
  for (std::size_t round = 0; round < 3 * kMostContexts; ++round) {
    if (round != 0) place_.make();
    open();
    for (std::uint64_t number = 1; number <= 6; ++number) launch(number, place_.stream);
    if (round % 2 == 0) {
      ASSERT_TRUE(collect());
      EXPECT_GE(timed().size(), 3U);
    }
    timer_.begin_context_end(place_.context);
    ASSERT_EQ(driver().cuCtxDestroy_v2(place_.context), CUDA_SUCCESS);
    timer_.end_context_end(place_.context, CUDA_SUCCESS);
    EXPECT_TRUE(collect());
    EXPECT_TRUE(timed().empty());
    timer_.close();
  }
  EXPECT_EQ(timer_.failure(), std::nullopt);
}

// Each of our calls in turn: the launch's own code is the program's, and nothing is sampled after it.
class LaunchTimerRefusals : public LaunchTimerTest, public testing::WithParamInterface<const char*> {};

TEST_P(LaunchTimerRefusals, TheFirstOneEndsIt) {
  start((std::string(GetParam()) + ":999").c_str());
  open();
  for (std::uint64_t number = 1; number <= 20 && !timer_.failure(); ++number) {
    if (LaunchTimer::Pair* pair = take(place_.stream)) {
      const TimerTicket ticket = LaunchTimer::ticket(*pair);
      EXPECT_EQ(timed_launch(*pair, [&] { return place_.launch(place_.stream); }), CUDA_SUCCESS);
      timer_.told(ticket, {number});
    }
    timer_.collect();
  }
  EXPECT_EQ(timer_.failure(), CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(wanted());
  EXPECT_TRUE(timer_.collect());
  timer_.open(kWindow);
  EXPECT_FALSE(wanted());
  EXPECT_EQ(place_.launch(place_.stream), CUDA_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(LaunchTimer, LaunchTimerRefusals,
                         testing::Values("cuEventCreate:1", "cuEventCreate:7", "cuEventRecord:3", "cuEventRecord:4",
                                         "cuEventQuery:2", "cuEventElapsedTime:1", "cuEventElapsedTime:4"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// Threads that launch, one that tells, one that reads, and contexts that come and go.
TEST_F(LaunchTimerTest, ThreadsBesideEachOther) {
  start();
  struct Told {
    std::mutex mutex;
    std::vector<TimerTicket> tickets;
  } told;
  std::atomic<bool> done{false};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> number{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      cuCtxSetCurrent(place_.context);
      while (!done) {
        const bool per_thread = i == 2;
        const CUstream stream = per_thread ? CU_STREAM_PER_THREAD : i == 1 ? nullptr : place_.stream;
        LaunchTimer::Pair* pair = wanted() ? timer_.take(stream, per_thread) : nullptr;
        if (pair == nullptr) {
          std::this_thread::yield();
          continue;
        }
        const TimerTicket ticket = LaunchTimer::ticket(*pair);
        EXPECT_EQ(timed_launch(*pair, [&] { return place_.launch(stream); }), CUDA_SUCCESS);
        const std::lock_guard lock(told.mutex);
        told.tickets.push_back(ticket);
      }
    });
  }
  std::thread teller([&] {
    while (!stop) {
      std::vector<TimerTicket> some;
      {
        const std::lock_guard lock(told.mutex);
        some.swap(told.tickets);
      }
      for (const TimerTicket ticket : some) timer_.told(ticket, {++number});
      std::this_thread::yield();
    }
  });
  std::thread contexts([&] {
    while (!done) {
      LaunchingPlace own;
      own.make();
      for (int n = 0; n < 40; ++n) {
        LaunchTimer::Pair* pair = wanted() ? timer_.take(own.stream, false) : nullptr;
        if (pair != nullptr) {
          EXPECT_EQ(timed_launch(*pair, [&] { return own.launch(own.stream); }), CUDA_SUCCESS);
        }
        std::this_thread::yield();
      }
      timer_.begin_context_end(own.context);
      driver().cuCtxDestroy_v2(own.context);
      timer_.end_context_end(own.context, CUDA_SUCCESS);
    }
  });
  std::size_t times = 0;
  std::thread reader([&] {
    for (int window = 0; window < 20; ++window) {
      timer_.open(kWindow);
      for (int i = 0; i < 5; ++i) {
        timer_.make_pairs();
        std::this_thread::sleep_for(1ms);
      }
      timer_.close();
      for (int i = 0; i < 20 && !timer_.collect(); ++i) std::this_thread::sleep_for(1ms);
      times += timer_.take_times().size();
    }
    done = true;
  });
  reader.join();
  for (std::thread& thread : threads) thread.join();
  contexts.join();
  stop = true;
  teller.join();
  EXPECT_EQ(timer_.failure(), std::nullopt);
  EXPECT_GT(times, 0U);
  EXPECT_LE(times, number.load());
}

}  // namespace
}  // namespace spillway::shim
