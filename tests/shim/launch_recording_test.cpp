// The launch path from the exported symbol to the record in the ring, over the counting driver.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "policy/event.hpp"
#include "shim/driver.hpp"
#include "shim/launch_path.hpp"
#include "shim/progress_marks.hpp"
#include "shim/thread_state.hpp"
#include "tests/shim/stand_in/stand_in.hpp"

namespace spillway::shim {
namespace {

using policy::operator""_MiB;

constexpr std::uint64_t kRecordedRange = 0x7e00'0000'0000;

// A record copied out of the ring.
struct Copy {
  RecordHeader header;
  std::vector<std::uint64_t> words;
};

std::vector<Copy> drain() {
  std::vector<Copy> records;
  launch_path().rings.drain([&](const RecordHeader& header) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(&header);
    records.push_back({header, {words, words + header.words}});
  });
  return records;
}

class LaunchRecording : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(find_driver(Search::load));
    answer(CUDA_SUCCESS);
    drain();
    launch_path().recording = true;
    launch_path().addresses.insert({kRecordedRange}, 4_MiB, {1});
  }
  void TearDown() override {
    launch_path().recording = false;
    launch_path().observer = nullptr;
    launch_path().captures = 0;
    launch_path().addresses.remove({kRecordedRange});
    answer(CUDA_SUCCESS);
  }
  static void answer(CUresult code) {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    reinterpret_cast<decltype(&stand_in_answer)>(dlsym(library, "stand_in_answer"))(code);
  }

  // The stand-in's kernel: pointer, int, struct of three words.
  std::uint64_t pointer = kRecordedRange + 16;
  int count = 3;
  std::uint64_t words[3] = {kRecordedRange + 32, 0, 1};
  void* parameters[3] = {&pointer, &count, words};
  CUfunction kernel = reinterpret_cast<CUfunction>(0x1234);
  CUstream stream = reinterpret_cast<CUstream>(0xabc0);
};

void expect_launch(const Copy& record, std::uint64_t threads, std::uint64_t stream_word_expected) {
  ASSERT_EQ(record.header.kind, RecordKind::launch);
  EXPECT_EQ(record.header.stream, stream_word_expected);
  EXPECT_GT(record.header.time, 0);
  ASSERT_EQ(record.words.size(), 6U);
  EXPECT_EQ(record.words[3], threads);
  EXPECT_EQ(record.words[4], Touch::of(kRecordedRange + 16, 0).packed);
  EXPECT_EQ(record.words[5], Touch::of(kRecordedRange + 32, 2).packed);
  EXPECT_EQ(launch_path().functions.name_of({record.header.detail}), "_Z8stand_inPfi6Struct");
}

TEST_F(LaunchRecording, PlainExtendedAndCooperative) {
  ASSERT_EQ(::cuLaunchKernel(kernel, 2, 3, 4, 5, 6, 7, 0, stream, parameters, nullptr), CUDA_SUCCESS);
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 2;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  ASSERT_EQ(::cuLaunchKernelEx(&config, kernel, parameters, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(::cuLaunchCooperativeKernel(kernel, 1, 1, 1, 8, 1, 1, 0, stream, parameters), CUDA_SUCCESS);
  CUDA_LAUNCH_PARAMS several[2] = {};
  for (auto& one : several) {
    one.function = kernel;
    one.gridDimX = one.gridDimY = one.gridDimZ = one.blockDimY = one.blockDimZ = 1;
    one.blockDimX = 16;
    one.hStream = stream;
    one.kernelParams = parameters;
  }
  ASSERT_EQ(::cuLaunchCooperativeKernelMultiDevice(several, 2, 0), CUDA_SUCCESS);
  const auto records = drain();
  ASSERT_EQ(records.size(), 5U);
  const std::uint64_t threads[] = {24 * 210, 256, 8, 16, 16};
  for (std::size_t i = 0; i < 5; ++i) expect_launch(records[i], threads[i], 0xabc0);
}

TEST_F(LaunchRecording, PackedArguments) {
  struct {
    std::uint64_t words[5];
  } packed{{kRecordedRange + 16, 0, kRecordedRange + 32, 0, 0}};
  std::size_t bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  ASSERT_EQ(::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra), CUDA_SUCCESS);
  const auto records = drain();
  ASSERT_EQ(records.size(), 1U);
  expect_launch(records[0], 1, 0xabc0);
}

TEST_F(LaunchRecording, ArgumentsOfOldLaunchesAreUnknown) {
  ASSERT_EQ(::cuLaunchGrid(kernel, 3, 4), CUDA_SUCCESS);
  const auto records = drain();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].header.flags, kArgumentsUnknown);
  EXPECT_EQ(records[0].words.size(), 4U);
  EXPECT_EQ(records[0].words[3], 12U);
}

TEST_F(LaunchRecording, DefaultStreamsHaveTheirNames) {
  ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, parameters, nullptr);
  ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, parameters, nullptr);
  ::cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  std::thread([&] { ::cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr); }).join();
  const auto records = drain();
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[0].header.stream, 0U);
  EXPECT_EQ(records[1].header.stream, 0U);
  EXPECT_NE(records[2].header.stream & kPerThreadStream, 0U);
  EXPECT_EQ(records[3].header.stream, records[2].header.stream);
  EXPECT_NE(records[4].header.stream, records[3].header.stream) << "each thread has its own";
}

TEST_F(LaunchRecording, ARefusedLaunchLeavesNoRecord) {
  answer(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr),
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(::cuMemsetD8_v2(kRecordedRange, 0, 16), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_TRUE(drain().empty());
}

TEST_F(LaunchRecording, NothingIsRecordedWhenSwitchedOffOrFromOurOwnThreads) {
  launch_path().recording = false;
  ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  launch_path().recording = true;
  {
    const HookScope ours;
    const std::uint64_t before = hook_count(HookId::cuLaunchKernel);
    ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    EXPECT_EQ(hook_count(HookId::cuLaunchKernel), before);
  }
  EXPECT_TRUE(drain().empty());
}

TEST_F(LaunchRecording, CopiesFillsAndGraphLaunches) {
  char host[64] = {};
  ::cuMemcpyHtoDAsync_v2(kRecordedRange, host, 64, stream);
  ::cuMemcpyDtoH_v2(host, kRecordedRange + 64, 32);
  ::cuMemsetD32Async(kRecordedRange + 128, 0, 10, stream);
  ::cuMemsetD2D16_v2(kRecordedRange, 1024, 0, 8, 3);
  CUDA_MEMCPY2D_v2 rectangle{};
  rectangle.srcMemoryType = CU_MEMORYTYPE_HOST;
  rectangle.srcHost = host;
  rectangle.srcPitch = 16;
  rectangle.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rectangle.dstDevice = kRecordedRange;
  rectangle.dstPitch = 256;
  rectangle.dstY = 2;
  rectangle.dstXInBytes = 8;
  rectangle.WidthInBytes = 16;
  rectangle.Height = 4;
  ::cuMemcpy2D_v2(&rectangle);
  ::cuGraphLaunch(reinterpret_cast<CUgraphExec>(0x77), stream);
  const auto records = drain();
  ASSERT_EQ(records.size(), 6U);
  const auto host_address = reinterpret_cast<std::uintptr_t>(host);
  using Words = std::vector<std::uint64_t>;
  const auto payload = [&](std::size_t i) { return Words(records[i].words.begin() + 3, records[i].words.end()); };
  EXPECT_EQ(payload(0), (Words{kRecordedRange, host_address, 64}));
  EXPECT_EQ(records[0].header.detail, static_cast<unsigned>(policy::CopyKind::host_to_device));
  EXPECT_EQ(payload(1), (Words{host_address, kRecordedRange + 64, 32}));
  EXPECT_EQ(records[1].header.detail, static_cast<unsigned>(policy::CopyKind::device_to_host));
  EXPECT_EQ(payload(2), (Words{kRecordedRange + 128, 40}));
  EXPECT_EQ(payload(3), (Words{kRecordedRange, 2 * 1024 + 16}));
  EXPECT_EQ(payload(4), (Words{kRecordedRange + 2 * 256 + 8, host_address, 3 * 256 + 16}));
  EXPECT_EQ(records[5].header.kind, RecordKind::graph_launch);
  EXPECT_EQ(payload(5), (Words{0x77, 0, 0}));  // not timed
}

TEST_F(LaunchRecording, AnObserverActsBeforeTheDriver) {
  struct Watcher final : LaunchObserver {
    void before_call(const RecordHeader& record) noexcept override {
      if (record.kind == RecordKind::launch) seen = reinterpret_cast<const LaunchRecord&>(record).touch_count();
      if (record.kind == RecordKind::graph_launch) {
        graph = reinterpret_cast<const GraphLaunchRecord&>(record).executable;
      }
      if (record.kind == RecordKind::copy) copied = reinterpret_cast<const CopyRecord&>(record).bytes;
    }
    void after_call() noexcept override { ++answered; }
    std::size_t seen = 0;
    int answered = 0;
    std::uint64_t graph = 0;
    std::uint64_t copied = 0;
  } watcher;
  launch_path().observer = &watcher;
  ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  EXPECT_EQ(watcher.seen, 2U);
  ::cuGraphLaunch(reinterpret_cast<CUgraphExec>(0x78), stream);
  EXPECT_EQ(watcher.graph, 0x78U);
  ::cuMemcpyDtoD_v2(kRecordedRange, kRecordedRange + 4096, 96);
  EXPECT_EQ(watcher.copied, 96U);
  answer(CUDA_ERROR_INVALID_VALUE);
  ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  EXPECT_EQ(watcher.answered, 4) << "once a call, whatever the driver said";
}

TEST_F(LaunchRecording, AFullRingDropsAndCounts) {
  launch_path().rings.take_dropped();
  constexpr int kLaunches = 200'000;
  for (int i = 0; i < kLaunches; ++i) {
    ASSERT_EQ(::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), CUDA_SUCCESS);
  }
  const std::size_t kept = drain().size();
  EXPECT_LT(kept, std::size_t{kLaunches});
  EXPECT_EQ(kept + launch_path().rings.take_dropped(), std::size_t{kLaunches});
}

// The launches of one context; the stand-in's events have passed at once.
TEST_F(LaunchRecording, MarksTakeNoHeapAndStandInTheRecords) {
  const auto launch = [&] { return ::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr); };
  progress_marks().want(1);
  EXPECT_EQ(launch(), CUDA_SUCCESS);
  EXPECT_FALSE(progress_marks().look().passed);
  {
    const NoHeapScope no_heap(this_thread);
    EXPECT_EQ(launch(), CUDA_SUCCESS);
    ::cuGraphLaunch(reinterpret_cast<CUgraphExec>(0x79), stream);
    EXPECT_EQ(::cuLaunchGridAsync(kernel, 3, 4, stream), CUDA_SUCCESS);
  }
  progress_marks().want(0);
  EXPECT_EQ(launch(), CUDA_SUCCESS);
  const std::vector<Copy> records = drain();
  ASSERT_EQ(records.size(), 5U);
  const std::vector<std::size_t> sizes{6, 7, sizeof(GraphLaunchRecord) / 8, 5, 6};
  const std::vector<MarkNumber> numbers{0, 1, 2, 3, 0};
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto* header = reinterpret_cast<const RecordHeader*>(records[i].words.data());
    const bool of_graph = header->kind == RecordKind::graph_launch;
    const auto mark = of_graph ? reinterpret_cast<const GraphLaunchRecord*>(header)->mark
                               : reinterpret_cast<const LaunchRecord*>(header)->mark();
    EXPECT_EQ(records[i].words.size(), sizes[i]) << i;
    EXPECT_EQ(mark, numbers[i]) << i;
    if (mark != 0) progress_marks().told(mark, {i});
  }
  EXPECT_EQ(progress_marks().look().passed.value, 3U);
}

#ifndef NDEBUG
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(NoHeap, AnAllocationInsideTheScopeAborts) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const NoHeapScope scope(this_thread);
        void* volatile memory = ::operator new(16);
        ::operator delete(memory);
      },
      "heap allocation");
}
#endif
#endif

}  // namespace
}  // namespace spillway::shim
