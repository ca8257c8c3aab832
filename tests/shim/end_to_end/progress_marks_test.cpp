// Marks of the device's progress, on the program's calls and against the simulated driver: which launches leave an
// event, when they are told, contexts that end, and a driver that refuses.
#include "shim/progress_marks.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"
#include "shim/launch_timer.hpp"
#include "shim/thread_ring.hpp"
#include "tests/shim/end_to_end/launching_place.hpp"
#include "tools/simulated_device/inspection.hpp"

namespace spillway::shim {
namespace {

using namespace std::chrono_literals;
using policy::LaunchNumber;
using Progress = ProgressMarks::Progress;

bool marks_wanted() { return (launch_path().events.load(std::memory_order_acquire) & kMarksWanted) != 0; }

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
  void begin(std::uint64_t every = 1) {
    marks_.want(1);
    launch_many(1);
    EXPECT_FALSE(look().passed);
    launch_many(1);
    ASSERT_EQ(settle(), launches_);
    marks_.want(every);
  }
  void TearDown() override { launch_path().recording = false; }

  [[nodiscard]] CUresult launch(CUstream stream) const { return place_.launch_by(cuLaunchKernel, stream); }
  void launch_many(int count) const {
    for (int i = 0; i < count; ++i) ASSERT_EQ(launch(place_.stream), CUDA_SUCCESS);
  }
  // As the session does it: what was recorded is numbered, and the marks are told.
  void drain() {
    launch_path().rings.drain([this](const RecordHeader& header) {
      const bool of_graph = header.kind == RecordKind::graph_launch;
      if ((header.flags & kCapturing) != 0 || (!of_graph && header.kind != RecordKind::launch)) return;
      ++launches_;
      const MarkNumber mark = of_graph ? reinterpret_cast<const GraphLaunchRecord&>(header).mark
                                       : reinterpret_cast<const LaunchRecord&>(header).mark();
      if (mark == 0) return;
      marks_.told(mark, {launches_});
      marked_.push_back(launches_);
    });
  }
  Progress look() {
    drain();
    const Progress progress = marks_.look();
    if (progress.passed) latest_ = progress.passed.value;
    return progress;
  }
  // The latest that was told, once no event is out.
  std::uint64_t settle() {
    for (int i = 0; i < 5000; ++i) {
      if (!look().out) return latest_;
      std::this_thread::sleep_for(1ms);
    }
    ADD_FAILURE() << "an event never passes";
    return 0;
  }
  static std::uint64_t records() { return spillway_simulated_calls("cuEventRecord"); }
  static std::uint64_t queries() { return spillway_simulated_calls("cuEventQuery"); }
  static std::uint64_t all_calls() {
    std::uint64_t count = 0;
    for (const char* symbol :
         {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventDestroy_v2", "cuStreamIsCapturing",
          "cuStreamGetCtx", "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuThreadExchangeStreamCaptureMode"}) {
      count += spillway_simulated_calls(symbol);
    }
    return count;
  }
  CUgraphExec captured_launch() {
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    EXPECT_EQ(cuStreamBeginCapture_v2(place_.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamEndCapture(place_.stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
    return executable;
  }

  ProgressMarks& marks_ = progress_marks();
  LaunchingPlace place_;
  std::uint64_t launches_ = 0;         // that were drained
  std::uint64_t latest_ = 0;           // that was told
  std::vector<std::uint64_t> marked_;  // launches
};

TEST_F(ProgressMarksTest, WhereNoneIsWantedTheDriverIsAskedNothing) {
  start();
  const auto calls_of = [this](int launches) {
    const std::uint64_t before = all_calls();
    launch_many(launches);
    return all_calls() - before;
  };
  EXPECT_EQ(calls_of(100), 0U);
  begin(0);
  EXPECT_FALSE(marks_wanted());
  EXPECT_EQ(calls_of(100), 0U);
  EXPECT_FALSE(look().out);
  marks_.want(1);
  EXPECT_EQ(calls_of(20), 60U) << "is it captured, whose is it, and the event";
  marks_.want(5);
  EXPECT_EQ(calls_of(100), 60U) << "those between do not ask";
  const std::uint64_t marked = settle();
  EXPECT_EQ(marked, launches_);
  marks_.want(0);
  EXPECT_EQ(calls_of(100), 0U);
  const std::uint64_t before = all_calls();
  EXPECT_EQ(settle(), marked);
  EXPECT_EQ(all_calls(), before);
}

TEST_F(ProgressMarksTest, EveryKindOfLaunchAndStreamLeavesOne) {
  start();
  begin();
  CUgraphExec executable = captured_launch();
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
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const std::uint64_t records_before = records();
    const std::uint64_t launches_before = launches_;
    ASSERT_EQ(ways[way](), CUDA_SUCCESS) << way;
    EXPECT_EQ(records() - records_before, 1U) << way;
    EXPECT_EQ(settle(), launches_before + 1) << way;
  }
  // Copies and fills are none.
  const std::uint64_t before = records();
  EXPECT_EQ(cuMemsetD8Async(place_.data, 0, 16, place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(records(), before);
}

TEST_F(ProgressMarksTest, ItIsToldWhenTheDeviceHasDoneIt) {
  start();
  begin();
  Gate gate(place_.stream);
  launch_many(1);
  for (int i = 0; i < 20; ++i) {
    const Progress progress = look();
    EXPECT_FALSE(progress.passed);
    EXPECT_TRUE(progress.out);
  }
  gate.open = true;
  EXPECT_EQ(settle(), 3U);
}

// All at once, and then it waits: launches in the middle are told while the rest is still held up.
TEST_F(ProgressMarksTest, AProgramThatEnqueuesAheadHearsOfItsMiddle) {
  start();
  constexpr int kParts = 6;
  constexpr int kOfAPart = 10;
  constexpr std::uint64_t kEvery = 3;
  begin(kEvery);
  const std::uint64_t first = launches_;
  std::vector<std::unique_ptr<Gate>> gates;
  for (int part = 0; part < kParts; ++part) {
    gates.push_back(std::make_unique<Gate>(place_.stream));
    launch_many(kOfAPart);
  }
  for (std::uint64_t part = 1; part <= kParts; ++part) {
    gates[part - 1]->open = true;
    const std::uint64_t done = part * kOfAPart;
    const std::uint64_t latest_marked = first + done - done % kEvery;
    for (int i = 0; i < 5000 && latest_ < latest_marked; ++i) {
      look();
      std::this_thread::sleep_for(1ms);
    }
    for (int i = 0; i < 5; ++i) look();
    EXPECT_EQ(latest_, latest_marked) << "of part " << part;
  }
  EXPECT_EQ(marked_.size(), 1U + kParts * kOfAPart / kEvery) << "a third";
}

TEST_F(ProgressMarksTest, ARateHoldsForAllThreadsTogether) {
  start();
  begin(3);
  const std::uint64_t before = records();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      cuCtxSetCurrent(place_.context);
      launch_many(150);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(records() - before, 200U);
  EXPECT_GT(records() - before, 100U);
  const std::uint64_t latest = settle();
  EXPECT_EQ(latest, *std::max_element(marked_.begin(), marked_.end()));
}

TEST_F(ProgressMarksTest, OfSeveralAtOnceTheLastIsTold) {
  start();
  begin();
  launch_many(20);
  ASSERT_EQ(driver().cuStreamSynchronize(place_.stream), CUDA_SUCCESS);
  const Progress progress = look();
  EXPECT_EQ(progress.passed.value, 22U);
  EXPECT_FALSE(progress.out);
  EXPECT_FALSE(look().passed) << "once";
}

TEST_F(ProgressMarksTest, TheOldestIsAskedForFirst) {
  start();
  begin();
  CUstream other = nullptr;
  ASSERT_EQ(driver().cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Gate gate(place_.stream);
  launch_many(1);
  ASSERT_EQ(launch(other), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuStreamSynchronize(other), CUDA_SUCCESS);
  const std::uint64_t before = queries();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(look().passed);
  EXPECT_EQ(queries() - before, 5U);
  gate.open = true;
  EXPECT_EQ(settle(), 4U);
}

// The records of two threads may be drained in another order than they were marked in.
TEST_F(ProgressMarksTest, WhatIsToldNeverGoesBack) {
  start();
  begin();
  launch_many(3);
  ASSERT_EQ(driver().cuStreamSynchronize(place_.stream), CUDA_SUCCESS);
  std::vector<MarkNumber> numbers;
  launch_path().rings.drain(
      [&](const RecordHeader& header) { numbers.push_back(reinterpret_cast<const LaunchRecord&>(header).mark()); });
  ASSERT_EQ(numbers.size(), 3U);
  marks_.told(numbers[0], {12});
  EXPECT_EQ(marks_.look().passed.value, 12U);
  marks_.told(numbers[1], {11});
  EXPECT_FALSE(marks_.look().passed);
  marks_.told(numbers[2], {13});
  EXPECT_EQ(marks_.look().passed.value, 13U);
}

TEST_F(ProgressMarksTest, ItWaitsForTheRecordOfItsLaunch) {
  start();
  begin();
  launch_many(2);
  ASSERT_EQ(driver().cuStreamSynchronize(place_.stream), CUDA_SUCCESS);
  const std::uint64_t before = queries();
  for (int i = 0; i < 5; ++i) {
    const Progress progress = marks_.look();  // without a drain
    EXPECT_FALSE(progress.passed);
    EXPECT_TRUE(progress.out);
  }
  EXPECT_EQ(queries(), before);
  EXPECT_EQ(look().passed.value, 4U);
}

TEST_F(ProgressMarksTest, AMarkWhoseRecordIsLostIsDropped) {
  start();
  begin();
  CUgraphExec executable = captured_launch();
  drain();
  EventRing* ring = thread_ring(this_thread);
  for (const auto words : std::array<std::uint16_t, 3>{65535, 60, 6}) {
    while (std::uint64_t* at = ring->reserve(words)) {
      auto* header = new (at) RecordHeader;
      header->kind = RecordKind::copy;
      header->words = words;
      ring->commit(words);
    }
  }
  const std::uint64_t before = records();
  const std::uint64_t dropped = ring->dropped();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cuGraphLaunch(executable, place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(ring->dropped() - dropped, 3U);
  EXPECT_EQ(records() - before, 3U);
  const Progress progress = look();
  EXPECT_FALSE(progress.passed);
  EXPECT_FALSE(progress.out);
  launch_many(1);
  EXPECT_EQ(settle(), launches_);
}

// Nor is one told, or waited for, whose launch is none of policy's.
TEST_F(ProgressMarksTest, AnUnknownGraphIsNotTold) {
  start();
  begin();
  Gate gate(place_.stream);
  const auto tell = [this](LaunchNumber launch) {
    launch_many(1);
    launch_path().rings.drain(
        [&](const RecordHeader& header) { marks_.told(reinterpret_cast<const LaunchRecord&>(header).mark(), launch); });
  };
  tell({});
  EXPECT_FALSE(marks_.look().out);
  tell({9});
  tell({});
  EXPECT_TRUE(marks_.look().out);
  gate.open = true;
  EXPECT_EQ(settle(), 9U);
}

TEST_F(ProgressMarksTest, NoMoreEventsAreOutThanThereAreAndTheyComeRound) {
  start();
  begin();
  Gate gate(place_.stream);
  const std::uint64_t before = records();
  launch_many(static_cast<int>(ProgressMarks::kMost));
  EXPECT_EQ(records() - before, ProgressMarks::kMost);
  const std::uint64_t calls = all_calls();
  launch_many(3);
  EXPECT_EQ(all_calls(), calls) << "none is to be had";
  drain();
  gate.open = true;
  EXPECT_EQ(settle(), launches_ - 3);
  launch_many(1);
  EXPECT_EQ(settle(), launches_);
  for (std::uint64_t i = 0; i < 3 * ProgressMarks::kMost; ++i) {
    launch_many(1);
    ASSERT_EQ(settle(), launches_);
  }
}

TEST_F(ProgressMarksTest, NothingIsRecordedInACaptureAndTheNextLaunchMakesUpForIt) {
  start();
  begin(3);
  launch_many(2);
  const std::uint64_t before = records();
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
    EXPECT_FALSE(look().passed);
    ASSERT_EQ(ends(place_.stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
    EXPECT_EQ(nodes, 3U);
  }
  EXPECT_EQ(records(), before);
  EXPECT_EQ(launch(place_.stream), CUDA_SUCCESS);
  EXPECT_EQ(settle(), launches_);
}

TEST_F(ProgressMarksTest, LookingDoesNotDisturbACapture) {
  start();
  marks_.want(1);
  launch_many(1);
  CUstream other = nullptr;
  CUgraph graph = nullptr;
  ASSERT_EQ(driver().cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  std::thread([this] { look(); }).join();  // makes events
  ASSERT_EQ(cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
  launch_many(1);
  ASSERT_EQ(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  std::thread([this] { EXPECT_EQ(settle(), 2U); }).join();
  EXPECT_EQ(cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
  EXPECT_EQ(marks_.refused(), CUDA_SUCCESS);
}

TEST_F(ProgressMarksTest, ALaunchThatTheDriverRefusesLeavesNone) {
  start();
  begin();
  const std::uint64_t before = all_calls();
  EXPECT_EQ(place_.launch_by(cuLaunchKernel, place_.stream, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(all_calls(), before);
  launch_many(1);
  EXPECT_EQ(settle(), 3U);
}

// One launch with a ticket and a mark: both say the launch's number, and neither is taken for a touch.
TEST_F(ProgressMarksTest, ALaunchMayBeTimedAndMarked) {
  start();
  begin(2);
  launch_timer().open(policy::LaunchCount(512));
  ASSERT_EQ(launch_path().addresses.insert({place_.data}, policy::Bytes(AddressTable::kSmallest), {1}),
            AddressTable::Outcome::done);
  launch_many(1);
  launch_timer().make_pairs();
  CUgraphExec executable = captured_launch();
  drain();
  std::set<std::uint64_t> timed;
  std::array<int, 4> of_kind{};  // bit 0: timed, bit 1: marked
  int graphs = 0;                // both
  for (int round = 0; round < 60; ++round) {
    ASSERT_EQ(round % 5 == 4 ? cuGraphLaunch(executable, place_.stream) : launch(place_.stream), CUDA_SUCCESS);
    std::this_thread::sleep_for(1ms);  // as in launch_timer_test
    launch_path().rings.drain([&](const RecordHeader& header) {
      ++launches_;
      TimerTicket ticket = 0;
      MarkNumber mark = 0;
      if (header.kind == RecordKind::graph_launch) {
        const auto& record = reinterpret_cast<const GraphLaunchRecord&>(header);
        ticket = record.ticket;
        mark = record.mark;
        graphs += ticket != 0 && mark != 0 ? 1 : 0;
      } else {
        const auto& record = reinterpret_cast<const LaunchRecord&>(header);
        ticket = record.ticket();
        mark = record.mark();
        of_kind[(ticket != 0 ? 1U : 0U) | (mark != 0 ? 2U : 0U)] += 1;
        ASSERT_EQ(record.touch_count(), 1U);
        EXPECT_EQ(record.touches()[0].address(), place_.data);
      }
      if (ticket != 0) {
        launch_timer().told(ticket, {launches_});
        timed.insert(launches_);
      }
      if (mark == 0) return;
      marks_.told(mark, {launches_});
      marked_.push_back(launches_);
    });
  }
  for (const int count : of_kind) EXPECT_GT(count, 0);
  EXPECT_GT(graphs, 0);
  EXPECT_EQ(settle(), marked_.back());
  launch_timer().close();
  for (int i = 0; i < 100 && !launch_timer().collect(); ++i) std::this_thread::sleep_for(1ms);
  const auto times = launch_timer().take_times();
  EXPECT_FALSE(times.empty());
  for (const auto& time : times) EXPECT_TRUE(timed.contains(time.launch.value));
  launch_path().addresses.remove({place_.data});
}

TEST_F(ProgressMarksTest, WhatIsOutInAContextThatEndsIsNotTold) {
  start();
  begin();
  for (std::size_t round = 0; round < 20; ++round) {
    const std::uint64_t before = latest_;
    LaunchingPlace other;
    other.make();
    ASSERT_EQ(other.launch_by(cuLaunchKernel, other.stream), CUDA_SUCCESS);
    look();
    const std::uint64_t records_before = records();
    ASSERT_EQ(other.launch_by(cuLaunchKernel, other.stream), CUDA_SUCCESS);
    EXPECT_EQ(records(), records_before + 1);
    marks_.begin_context_end(other.context);
    const std::uint64_t queries_before = queries();
    EXPECT_TRUE(look().out);
    EXPECT_EQ(queries(), queries_before) << "it may be gone";
    const std::uint64_t marked = marked_.back();
    ASSERT_EQ(other.launch_by(cuLaunchKernel, other.stream), CUDA_SUCCESS);
    EXPECT_EQ(records(), records_before + 1) << "no event is recorded there";
    if (round % 2 == 0) {
      ASSERT_EQ(driver().cuCtxDestroy_v2(other.context), CUDA_SUCCESS);
      marks_.end_context_end(other.context, CUDA_SUCCESS);
      EXPECT_FALSE(look().out);
      EXPECT_EQ(latest_, before);
      EXPECT_EQ(queries(), queries_before);
    } else {
      marks_.end_context_end(other.context, CUDA_ERROR_INVALID_CONTEXT);
      EXPECT_EQ(settle(), marked);
      EXPECT_GT(queries(), queries_before);
      marks_.begin_context_end(other.context);
      ASSERT_EQ(driver().cuCtxDestroy_v2(other.context), CUDA_SUCCESS);
      marks_.end_context_end(other.context, CUDA_SUCCESS);
    }
    cuCtxSetCurrent(place_.context);
    launch_many(1);
    ASSERT_EQ(settle(), launches_);
  }
  EXPECT_EQ(marks_.refused(), CUDA_SUCCESS);
}

// The driver has taken the launch, and what times it waits for its record.
TEST_F(ProgressMarksTest, ALaunchIsToldThoughItsThreadIsCancelledInOurQuestions) {
  start("cuStreamIsCapturing:*:delay=1ms,cuStreamGetCtx:*:delay=1ms");
  begin();
  pthread_t thread{};
  const auto launches = [](void* of) -> void* {
    const auto& place = *static_cast<LaunchingPlace*>(of);
    cuCtxSetCurrent(place.context);
    pthread_cancel(pthread_self());
    const CUresult code = place.launch_by(cuLaunchKernel, place.stream);
    // Address sanitizer does not know of threads that are unwound.
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    EXPECT_EQ(code, CUDA_SUCCESS);
    return nullptr;
  };
  const std::uint64_t before = launches_;
  ASSERT_EQ(pthread_create(&thread, nullptr, launches, &place_), 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_EQ(result, nullptr) << "it was cancelled in the call";
  drain();
  EXPECT_EQ(launches_, before + 1);
}

TEST_F(ProgressMarksTest, AQueryThatHangsHoldsUpNoEndOfAContext) {
  start("cuEventQuery:3:delay=10000ms");
  LaunchingPlace other;
  other.make();
  marks_.want(1);
  std::atomic<bool> came_back{false};
  std::thread looks([&] {
    cuCtxSetCurrent(place_.context);
    while (queries() < 3) {
      launch_many(1);
      look();
    }
    came_back = true;
  });
  while (queries() < 3) std::this_thread::yield();
  for (const CUcontext context : {other.context, place_.context}) {
    marks_.begin_context_end(context);
    EXPECT_EQ(marks_.refused(), CUDA_ERROR_TIMEOUT);
    EXPECT_FALSE(marks_wanted());
    marks_.end_context_end(context, CUDA_SUCCESS);
  }
  EXPECT_FALSE(came_back) << "it was waited for";
  looks.join();
  const std::uint64_t before = all_calls();
  EXPECT_EQ(look().refused, CUDA_ERROR_TIMEOUT);
  launch_many(3);
  EXPECT_EQ(all_calls(), before);
}

TEST_F(ProgressMarksTest, MoreContextsThanHaveEventsAtATimeEndIt) {
  start();
  begin();
  for (int context = 2; context <= 8; ++context) {
    place_.make();
    launch_many(1);
    look();
    launch_many(1);
    ASSERT_EQ(settle(), launches_);
  }
  place_.make();
  launch_many(1);
  EXPECT_EQ(look().refused, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_FALSE(marks_wanted());
}

// Each of our calls in turn: the launch's own code is the program's, and the driver is not asked again.
class ProgressMarksRefusals : public ProgressMarksTest, public testing::WithParamInterface<const char*> {};

TEST_P(ProgressMarksRefusals, TheFirstOneEndsIt) {
  start((std::string(GetParam()) + ":999").c_str());
  marks_.want(1);
  for (int i = 0; i < 20 && marks_.refused() == CUDA_SUCCESS; ++i) {
    launch_many(1);
    look();
  }
  EXPECT_EQ(marks_.refused(), CUDA_ERROR_UNKNOWN);
  EXPECT_LT(latest_, launches_);
  const bool creating = std::string_view(GetParam()).starts_with("cuEventCreate");
  EXPECT_EQ(spillway_simulated_calls("cuEventDestroy_v2"),
            creating ? spillway_simulated_calls("cuEventCreate") - 1 : 0U);
  EXPECT_FALSE(marks_wanted());
  for (const std::uint64_t every : {1U, 0U, 2U}) {
    marks_.want(every);
    EXPECT_FALSE(marks_wanted());
    const std::uint64_t before = all_calls();
    launch_many(3);
    const Progress progress = look();
    EXPECT_EQ(progress.refused, CUDA_ERROR_UNKNOWN);
    EXPECT_FALSE(progress.passed);
    EXPECT_FALSE(progress.out);
    EXPECT_EQ(all_calls(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(ProgressMarks, ProgressMarksRefusals,
                         testing::Values("cuEventCreate:1", "cuEventCreate:200", "cuEventRecord:1", "cuEventRecord:4",
                                         "cuEventQuery:1", "cuEventQuery:6"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

// Threads that launch, one that changes its mind, one that looks, and contexts that come and go.
TEST_F(ProgressMarksTest, ThreadsBesideEachOther) {
  start();
  constexpr int kTold = 300;
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
    for (std::uint64_t every = 1; !done; every = every % 5 + 1) {
      marks_.want(every == 5 ? 0 : every);
      std::this_thread::yield();
    }
    marks_.want(0);
  });
  const auto until = std::chrono::steady_clock::now() + 60s;  // then it hangs
  int told = 0;
  while (told < kTold && std::chrono::steady_clock::now() < until) {
    const std::uint64_t before = latest_;
    if (look().passed) {
      EXPECT_GT(latest_, before);
      EXPECT_NE(std::find(marked_.rbegin(), marked_.rend(), latest_), marked_.rend());
      ++told;
    }
    std::this_thread::yield();
  }
  EXPECT_EQ(told, kTold);
  done = true;
  for (std::thread& thread : threads) thread.join();
  settle();
  EXPECT_EQ(marks_.refused(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace spillway::shim
