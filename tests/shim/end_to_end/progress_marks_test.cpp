// Marks of the device's progress, on the program's calls and against the simulated driver: which launch records an
// event, when a mark is passed, contexts that end, and a driver that refuses.
#include "shim/progress_marks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"
#include "tests/shim/end_to_end/launching_place.hpp"
#include "tools/simulated_device/inspection.hpp"

namespace spillway::shim {
namespace {

using namespace std::chrono_literals;

bool mark_wanted() { return (launch_path().events.load(std::memory_order_acquire) & kMarkWanted) != 0; }

// Holds up a stream.
struct Gate {
  std::atomic<bool> open{false};
  explicit Gate(CUstream stream) {
    EXPECT_EQ(cuLaunchHostFunc(
                  stream,
                  [](void* gate) {
                    while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
                  },
                  this),
              CUDA_SUCCESS);
  }
};

class ProgressMarksTest : public testing::Test {
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
    launch_path().recording = true;
  }
  // The first launch says that there is such a context, the next one leaves an event.
  void begin() {
    marks_.want({1});
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
    EXPECT_EQ(marks_.look().passed.value, 0U);
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
    ASSERT_EQ(settle(), 1U);
    EXPECT_FALSE(mark_wanted());
  }
  void TearDown() override { launch_path().recording = false; }

  [[nodiscard]] CUresult launch(CUstream stream) const { return place_.launch_by(cuLaunchKernel, stream); }
  // What has passed once no event is out.
  std::uint64_t settle() {
    for (int i = 0; i < 1000; ++i) {
      const ProgressMarks::Progress progress = marks_.look();
      if (!progress.out) return progress.passed.value;
      std::this_thread::sleep_for(1ms);
    }
    ADD_FAILURE() << "an event never passes";
    return 0;
  }
  static std::uint64_t records() { return spillway_simulated_calls("cuEventRecord"); }
  static std::uint64_t all_calls() {
    std::uint64_t count = 0;
    for (const char* symbol :
         {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventDestroy_v2", "cuStreamIsCapturing",
          "cuStreamGetCtx", "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuThreadExchangeStreamCaptureMode"}) {
      count += spillway_simulated_calls(symbol);
    }
    return count;
  }

  ProgressMarks& marks_ = progress_marks();
  LaunchingPlace place_;
};

TEST_F(ProgressMarksTest, WhereNoMarkIsWantedTheDriverIsAskedNothing) {
  start();
  const auto calls_of = [this](int launches) {
    const std::uint64_t before = all_calls();
    for (int i = 0; i < launches; ++i) EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
    EXPECT_FALSE(marks_.look().out);
    return all_calls() - before;
  };
  EXPECT_EQ(calls_of(100), 0U);
  begin();
  EXPECT_EQ(calls_of(100), 0U);
  marks_.want({2});
  const std::uint64_t before = all_calls();
  EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(all_calls() - before, 3U) << "is it captured, whose is it, and the event";
  EXPECT_EQ(settle(), 2U);
  EXPECT_EQ(calls_of(100), 0U);
}

TEST_F(ProgressMarksTest, EveryKindOfLaunchAndStreamTakesOne) {
  start();
  begin();
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(place_.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(place_.stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  int count = LaunchingPlace::kElements;
  void* parameters[] = {&place_.data, &count};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 256;
  config.hStream = place_.stream;
  const std::vector<std::function<CUresult()>> ways{
      [&] { return launch(place_.stream); },
      [&] { return launch(nullptr); },
      [&] { return launch(CU_STREAM_LEGACY); },
      [&] { return launch(CU_STREAM_PER_THREAD); },
      [&] { return place_.launch_by(cuLaunchKernel_ptsz, nullptr); },
      [&] { return cuLaunchKernelEx(&config, place_.kernel, parameters, nullptr); },
      [&] { return cuLaunchCooperativeKernel(place_.kernel, 1, 1, 1, 256, 1, 1, 0, place_.stream, parameters); },
      [&] { return cuGraphLaunch(executable, place_.stream); },
      [&] { return cuGraphLaunch(executable, nullptr); },
  };
  std::uint64_t mark = 1;
  for (const auto& way : ways) {
    marks_.want({++mark});
    const std::uint64_t before = records();
    ASSERT_EQ(way(), CUDA_SUCCESS) << mark;
    EXPECT_EQ(records() - before, 1U) << mark;
    EXPECT_EQ(settle(), mark);
  }
  // Copies and fills are none.
  marks_.want({++mark});
  EXPECT_EQ(cuMemsetD8Async(place_.data, 0, 16, place_.stream), CUDA_SUCCESS);
  EXPECT_TRUE(mark_wanted());
}

TEST_F(ProgressMarksTest, ItIsPassedWhenTheDeviceHasComeToIt) {
  start();
  begin();
  Gate gate(place_.stream);
  marks_.want({2});
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    const ProgressMarks::Progress progress = marks_.look();
    EXPECT_EQ(progress.passed.value, 1U);
    EXPECT_TRUE(progress.out);
  }
  gate.open = true;
  EXPECT_EQ(settle(), 2U);
}

TEST_F(ProgressMarksTest, OneEventStandsForAllThatAreWanted) {
  start();
  begin();
  const std::uint64_t before = records();
  // In whatever order their threads come.
  for (const std::uint64_t mark : {2U, 5U, 3U, 4U}) marks_.want({mark});
  for (int i = 0; i < 10; ++i) ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  marks_.want({4});
  for (int i = 0; i < 10; ++i) ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(records() - before, 1U);
  EXPECT_EQ(settle(), 5U);
}

TEST_F(ProgressMarksTest, TheOldestIsAskedForFirst) {
  start();
  begin();
  CUstream other = nullptr;
  ASSERT_EQ(driver().cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Gate gate(place_.stream);
  marks_.want({2});
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  marks_.want({3});
  ASSERT_EQ(launch(other), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuStreamSynchronize(other), CUDA_SUCCESS);
  const std::uint64_t before = spillway_simulated_calls("cuEventQuery");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(marks_.look().passed.value, 1U);
  EXPECT_EQ(spillway_simulated_calls("cuEventQuery") - before, 5U);
  gate.open = true;
  EXPECT_EQ(settle(), 3U);
}

TEST_F(ProgressMarksTest, NoMoreEventsAreOutThanThereAreAndTheyComeRound) {
  start();
  begin();
  auto gate = std::make_unique<Gate>(place_.stream);
  std::uint64_t mark = 1;
  const std::uint64_t before = records();
  for (std::uint32_t i = 0; i < ProgressMarks::kMost + 3; ++i) {
    marks_.want({++mark});
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  }
  EXPECT_EQ(records() - before, ProgressMarks::kMost);
  EXPECT_TRUE(mark_wanted());
  gate->open = true;
  EXPECT_EQ(settle(), mark - 3);
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(settle(), mark);
  for (std::uint32_t i = 0; i < 3 * ProgressMarks::kMost; ++i) {
    marks_.want({++mark});
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
    ASSERT_EQ(settle(), mark);
  }
}

TEST_F(ProgressMarksTest, NothingIsRecordedInACapture) {
  start();
  begin();
  const std::uint64_t before = records();
  marks_.want({2});
  launch_path().captures = 1;  // of whomever
  EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
  launch_path().captures = 0;
  for (const bool told : {true, false}) {  // or one that nobody told us of
    const auto begins = told ? cuStreamBeginCapture_v2 : real_function<HookId::cuStreamBeginCapture_v2>();
    const auto ends = told ? cuStreamEndCapture : real_function<HookId::cuStreamEndCapture>();
    CUgraph graph = nullptr;
    std::size_t nodes = 0;
    ASSERT_EQ(begins(place_.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
    EXPECT_EQ(marks_.look().passed.value, 1U);
    ASSERT_EQ(ends(place_.stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
    EXPECT_EQ(nodes, 3U);
  }
  EXPECT_EQ(records(), before);
  EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(settle(), 2U);
}

TEST_F(ProgressMarksTest, LookingDoesNotDisturbACapture) {
  start();
  marks_.want({1});
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  CUstream other = nullptr;
  CUgraph graph = nullptr;
  ASSERT_EQ(driver().cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  std::thread([this] { marks_.look(); }).join();  // makes events
  ASSERT_EQ(cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  std::thread([this] { EXPECT_EQ(settle(), 1U); }).join();
  EXPECT_EQ(cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
  EXPECT_EQ(marks_.refused(), CUDA_SUCCESS);
}

TEST_F(ProgressMarksTest, ALaunchThatTheDriverRefusesTakesNone) {
  start();
  begin();
  marks_.want({2});
  const std::uint64_t before = all_calls();
  EXPECT_EQ(place_.launch_by(cuLaunchKernel, place_.stream, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(all_calls(), before);
  EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(settle(), 2U);
}

TEST_F(ProgressMarksTest, WhatIsOutInAContextThatEndsHasPassed) {
  start();
  begin();
  std::uint64_t mark = 1;
  for (std::size_t round = 0; round < 20; ++round) {
    LaunchingPlace other;
    other.make();
    marks_.want({++mark});
    ASSERT_EQ(other.launch_by(cuLaunchKernel, other.stream), CUDA_SUCCESS);
    marks_.look();
    ASSERT_EQ(other.launch_by(cuLaunchKernel, other.stream), CUDA_SUCCESS);
    EXPECT_FALSE(mark_wanted());
    marks_.begin_context_end(other.context);
    const std::uint64_t queries = spillway_simulated_calls("cuEventQuery");
    EXPECT_TRUE(marks_.look().out);
    EXPECT_EQ(spillway_simulated_calls("cuEventQuery"), queries) << "it may be gone";
    marks_.want({mark + 1});
    ASSERT_EQ(other.launch_by(cuLaunchKernel, other.stream), CUDA_SUCCESS);
    EXPECT_TRUE(mark_wanted()) << "no event is recorded there";
    if (round % 2 == 0) {
      ASSERT_EQ(driver().cuCtxDestroy_v2(other.context), CUDA_SUCCESS);
      marks_.end_context_end(other.context, CUDA_SUCCESS);
      EXPECT_EQ(marks_.look().passed.value, mark);
      EXPECT_EQ(spillway_simulated_calls("cuEventQuery"), queries);
    } else {
      marks_.end_context_end(other.context, CUDA_ERROR_INVALID_CONTEXT);
      EXPECT_EQ(settle(), mark);
      EXPECT_GT(spillway_simulated_calls("cuEventQuery"), queries);
      marks_.begin_context_end(other.context);
      ASSERT_EQ(driver().cuCtxDestroy_v2(other.context), CUDA_SUCCESS);
      marks_.end_context_end(other.context, CUDA_SUCCESS);
    }
    cuCtxSetCurrent(place_.context);
    ++mark;
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
    ASSERT_EQ(settle(), mark);
  }
  EXPECT_EQ(marks_.refused(), CUDA_SUCCESS);
}

TEST_F(ProgressMarksTest, MoreContextsThanHaveEventsAtATimeEndIt) {
  start();
  begin();
  std::uint64_t mark = 1;
  for (int context = 2; context <= 8; ++context) {
    place_.make();
    marks_.want({++mark});
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
    marks_.look();
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
    ASSERT_EQ(settle(), mark);
  }
  place_.make();
  marks_.want({++mark});
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(marks_.look().refused, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_FALSE(mark_wanted());
}

// Each of our calls in turn: the launch's own code is the program's, and the driver is not asked again.
class ProgressMarksRefusals : public ProgressMarksTest, public testing::WithParamInterface<const char*> {};

TEST_P(ProgressMarksRefusals, TheFirstOneEndsIt) {
  start((std::string(GetParam()) + ":999").c_str());
  std::uint64_t mark = 0;
  std::uint64_t passed = 0;
  while (mark < 20 && marks_.refused() == CUDA_SUCCESS) {
    marks_.want({++mark});
    ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
    const ProgressMarks::Progress progress = marks_.look();
    EXPECT_GE(progress.passed.value, passed);
    passed = progress.passed.value;
  }
  EXPECT_EQ(marks_.refused(), CUDA_ERROR_UNKNOWN);
  EXPECT_LT(passed, mark);
  const bool creating = std::string_view(GetParam()).starts_with("cuEventCreate");
  EXPECT_EQ(spillway_simulated_calls("cuEventDestroy_v2"),
            creating ? spillway_simulated_calls("cuEventCreate") - 1 : 0U);
  marks_.want({++mark});
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_FALSE(mark_wanted());
  const std::uint64_t before = all_calls();
  ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  const ProgressMarks::Progress progress = marks_.look();
  EXPECT_EQ(progress.refused, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(progress.passed.value, passed);
  EXPECT_FALSE(progress.out);
  EXPECT_EQ(all_calls(), before);
}

INSTANTIATE_TEST_SUITE_P(ProgressMarks, ProgressMarksRefusals,
                         testing::Values("cuEventCreate:1", "cuEventCreate:9", "cuEventRecord:1", "cuEventRecord:4",
                                         "cuEventQuery:1", "cuEventQuery:6"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// Threads that launch, one that wants marks, one that looks, and contexts that come and go.
TEST_F(ProgressMarksTest, ThreadsBesideEachOther) {
  start();
  constexpr std::uint64_t kMarks = 300;
  std::atomic<std::uint64_t> answered{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      cuCtxSetCurrent(place_.context);
      const CUstream stream = i == 2 ? CU_STREAM_PER_THREAD : i == 1 ? nullptr : place_.stream;
      while (!done) EXPECT_EQ(launch(stream), CUDA_SUCCESS);
    });
  }
  threads.emplace_back([&] {
    while (!done) {
      LaunchingPlace own;
      own.make();
      for (int n = 0; n < 100; ++n) EXPECT_EQ(own.launch_by(cuLaunchKernel, own.stream), CUDA_SUCCESS);
      marks_.begin_context_end(own.context);
      driver().cuCtxDestroy_v2(own.context);
      marks_.end_context_end(own.context, CUDA_SUCCESS);
    }
  });
  threads.emplace_back([&] {
    for (std::uint64_t mark = 1; mark <= kMarks;) {
      // A few at a time, as a session has them.
      if (mark < answered + 5) marks_.want({mark++});
      std::this_thread::yield();
    }
  });
  const auto until = std::chrono::steady_clock::now() + 60s;  // then it hangs
  while (answered < kMarks && std::chrono::steady_clock::now() < until) {
    const ProgressMarks::Progress progress = marks_.look();
    EXPECT_GE(progress.passed.value, answered);
    answered = progress.passed.value;
    launch_path().rings.drain([](const RecordHeader&) {});
    std::this_thread::yield();
  }
  EXPECT_EQ(answered, kMarks);
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(marks_.refused(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace spillway::shim
