// The stand-in CUPTI: one subscriber, records of page traffic and kernels by address and virtual time.
#include "tests/simulated_device/driver_fixture.hpp"

// Not cupti.h itself: it has types of its own for what cuda.h declares here.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>

namespace spillway::simulated {
namespace {

struct Collected {
  std::vector<CUpti_ActivityUnifiedMemoryCounter3> counters;
  std::vector<CUpti_ActivityKernel10> kernels;
};
Collected collected;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = 4096;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, *bytes));
  *most = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) {
      collected.counters.push_back(*reinterpret_cast<CUpti_ActivityUnifiedMemoryCounter3*>(record));
    } else {
      collected.kernels.push_back(*reinterpret_cast<CUpti_ActivityKernel10*>(record));
    }
  }
  std::free(buffer);
}

class Telemetry : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    collected = {};
    ASSERT_EQ(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), CUPTI_SUCCESS);
    ASSERT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER), CUPTI_SUCCESS);
    ASSERT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
    DriverTest::TearDown();
  }
  static std::vector<std::uint64_t> addresses(CUpti_ActivityUnifiedMemoryCounterKind kind) {
    std::vector<std::uint64_t> found;
    for (const auto& counter : collected.counters) {
      if (counter.counterKind == kind) found.push_back(counter.address);
    }
    return found;
  }
};

TEST_F(Telemetry, OnlyOneSubscriber) {
  CUpti_SubscriberHandle first = nullptr;
  CUpti_SubscriberHandle second = nullptr;
  ASSERT_EQ(cuptiSubscribe(&first, nullptr, nullptr), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiSubscribe(&second, nullptr, nullptr), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_EQ(cuptiUnsubscribe(first), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiSubscribe(&second, nullptr, nullptr), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiUnsubscribe(second), CUPTI_SUCCESS);
}

TEST_F(Telemetry, PageTrafficIsReportedByAddress) {
  const CUdeviceptr p = managed(3 * kTestChunk);
  prefetch(p, 3 * kTestChunk, kOnHost);
  ASSERT_EQ(launch(p + kTestChunk, kTestChunk), CUDA_SUCCESS);  // a fault brings the second chunk in
  prefetch(p + kTestChunk, kTestChunk, kOnHost);
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  const std::vector<std::uint64_t> second{p + kTestChunk};
  EXPECT_EQ(addresses(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD), second);
  EXPECT_EQ(addresses(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH), second);
  EXPECT_EQ(addresses(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT), second);
}

TEST_F(Telemetry, MapsInPlaceAreReportedByAddressAndSize) {
  const CUdeviceptr p = managed(2 * kTestChunk);
  advise(p, 2 * kTestChunk, CU_MEM_ADVISE_SET_ACCESSED_BY);
  prefetch(p, 2 * kTestChunk, kOnHost);
  advise(p + kTestChunk, kTestChunk, CU_MEM_ADVISE_UNSET_ACCESSED_BY);
  advise(p + kTestChunk, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
  advise(p + kTestChunk, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnHost);
  ASSERT_EQ(launch(p, 2 * kTestChunk), CUDA_SUCCESS);
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> maps;
  for (const auto& counter : collected.counters) {
    if (counter.counterKind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP)
      maps.emplace_back(counter.address, counter.value);
  }
  // On arrival, told to; then by a fault.
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> expected{
      {p, kTestChunk}, {p + kTestChunk, kTestChunk}, {p + kTestChunk, 4096}};
  EXPECT_EQ(maps, expected);
}

TEST_F(Telemetry, KernelsHaveNamesAndTimes) {
  const CUdeviceptr p = plain(4 * kMiB);
  ASSERT_EQ(launch(p, 4 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(launch(p, 4 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  ASSERT_EQ(collected.kernels.size(), 2U);
  EXPECT_STREQ(collected.kernels[0].name, kAddOne);
  EXPECT_LT(collected.kernels[0].start, collected.kernels[0].end);
  EXPECT_LE(collected.kernels[0].end, collected.kernels[1].start);
  EXPECT_EQ(collected.kernels[0].gridX, 4096);
}

TEST_F(Telemetry, TooManyRecordsAreDroppedAndCounted) {
  const CUdeviceptr p = plain(1024);
  for (int i = 0; i < 8200; ++i) ASSERT_EQ(launch(p, 1024), CUDA_SUCCESS);
  std::size_t dropped = 0;
  ASSERT_EQ(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_EQ(dropped, 8200U - 8191U);
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_EQ(collected.kernels.size(), 8191U);
}

TEST_F(Telemetry, NothingIsReportedOnceDisabled) {
  ASSERT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
  const CUdeviceptr p = plain(1024);
  ASSERT_EQ(launch(p, 1024), CUDA_SUCCESS);
  ASSERT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_TRUE(collected.kernels.empty());
}

// What follows CUPTI's first call wakes the counters; before it, the same wakes nothing.
int silent_until_managed_memory_is_made() {
  cuInit(0);
  CUcontext context = nullptr;
  CUdeviceptr p = 0;
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  cuMemAllocManaged(&p, 2 * kTestChunk, CU_MEM_ATTACH_GLOBAL);
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
  cuMemsetD8_v2(p, 1, kTestChunk);  // two faults if somebody counted
  cuptiActivityFlushAll(0);
  if (!collected.counters.empty()) return 1;
  CUdeviceptr more = 0;
  cuMemAllocManaged(&more, 65536, CU_MEM_ATTACH_GLOBAL);
  cuMemFree_v2(more);
  cuMemsetD8_v2(p + kTestChunk, 1, kTestChunk);
  cuptiActivityFlushAll(0);
  return collected.counters.empty() ? 2 : 0;
}

TEST(PageCounters, AreSilentUntilManagedMemoryIsMadeAfterCuptisFirstCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(silent_until_managed_memory_is_made()), testing::ExitedWithCode(0), "");
}

TEST(TelemetryBeforeInit, IsNotReady) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      std::exit(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) == CUPTI_ERROR_NOT_READY ? 0 : 1),
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace spillway::simulated
