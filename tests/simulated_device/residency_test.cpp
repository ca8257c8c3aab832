// Where managed pages are, and what moves them.
#include "tests/simulated_device/driver_fixture.hpp"

namespace spillway::simulated {
namespace {

using Residency = DriverTest;

TEST_F(Residency, FirstDeviceTouchFaultsAndPopulatesTheDevice) {
  const CUdeviceptr p = managed(2 * kTestChunk);
  EXPECT_EQ(where(p), Where::unpopulated);
  ASSERT_EQ(launch(p, 2 * kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(where(p), Where::device);
  EXPECT_EQ(statistics().faults - before_.faults, 2U);
  EXPECT_EQ(statistics().managed_resident_bytes - before_.managed_resident_bytes, 2 * kTestChunk);
}

TEST_F(Residency, AccessedByHostPagesAreUsedInPlaceWithoutFault) {
  const CUdeviceptr p = managed(2 * kTestChunk);
  advise(p, 2 * kTestChunk, CU_MEM_ADVISE_SET_ACCESSED_BY);
  prefetch(p, 2 * kTestChunk, kOnHost);
  EXPECT_EQ(where(p), Where::host);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(launch(p, 2 * kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(where(p), Where::host);
  EXPECT_EQ(statistics().faults, before_.faults);
  EXPECT_EQ(statistics().migrated_in_bytes, before_.migrated_in_bytes);
  EXPECT_EQ(statistics().remote_bytes - before_.remote_bytes, 3 * 2 * 2 * kTestChunk);  // read and written, three times
  EXPECT_EQ(at(p), 3.0F);
}

TEST_F(Residency, APreferenceForTheDeviceUnmapsHostPagesAndAFaultMapsThemInPlace) {
  const CUdeviceptr p = managed(2 * kTestChunk);
  advise(p, 2 * kTestChunk, CU_MEM_ADVISE_SET_ACCESSED_BY);
  prefetch(p, 2 * kTestChunk, kOnHost);
  // Neither does it alone, nor going by no preference.
  advise(p, kTestChunk, CU_MEM_ADVISE_UNSET_ACCESSED_BY);
  advise(p, kTestChunk, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnHost);
  ASSERT_EQ(launch(p, 2 * kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(statistics().faults, before_.faults);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnHost);
  ASSERT_EQ(launch(p, 2 * kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(statistics().faults - before_.faults, 1U) << "the chunk with AccessedBy kept its mapping";
  EXPECT_EQ(where(p), Where::host);
  EXPECT_EQ(statistics().migrated_in_bytes, before_.migrated_in_bytes);
  ASSERT_EQ(launch(p, 2 * kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(statistics().faults - before_.faults, 1U);
}

TEST_F(Residency, WhatLeavesWithoutAccessedByArrivesUnmapped) {
  const CUdeviceptr p = managed(kTestChunk);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_ACCESSED_BY);
  prefetch(p, kTestChunk, kOnDevice);
  advise(p, kTestChunk, CU_MEM_ADVISE_UNSET_ACCESSED_BY);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnHost);
  prefetch(p, kTestChunk, kOnHost);
  ASSERT_EQ(launch(p, kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(statistics().faults - before_.faults, 1U);
  EXPECT_EQ(where(p), Where::host);
}

TEST_F(Residency, WithoutAccessedByATouchMigrates) {
  const CUdeviceptr p = managed(kTestChunk);
  prefetch(p, kTestChunk, kOnHost);
  ASSERT_EQ(launch(p, kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(where(p), Where::device);
  EXPECT_EQ(statistics().faults - before_.faults, 1U);
  EXPECT_EQ(statistics().migrated_in_bytes - before_.migrated_in_bytes, kTestChunk);
}

TEST_F(Residency, PrefetchMovesBothWaysAndKeepsTheBytes) {
  const CUdeviceptr p = managed(3 * kTestChunk);
  prefetch(p, 3 * kTestChunk, kOnDevice);
  EXPECT_EQ(where(p + 2 * kTestChunk), Where::device);
  EXPECT_EQ(statistics().migrated_in_bytes, before_.migrated_in_bytes);  // populated, not moved
  ASSERT_EQ(launch(p, 3 * kTestChunk), CUDA_SUCCESS);
  prefetch(p + kTestChunk, kTestChunk, kOnHost);
  EXPECT_EQ(where(p), Where::device);
  EXPECT_EQ(where(p + kTestChunk), Where::host);
  EXPECT_EQ(statistics().migrated_out_bytes - before_.migrated_out_bytes, kTestChunk);
  EXPECT_EQ(at(p + kTestChunk), 1.0F);
  EXPECT_EQ(statistics().faults - before_.faults, 1U);  // the read back by the copy engine found host pages unmapped
}

TEST_F(Residency, MemoryInformationDoesNotMoveWithManagedPages) {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
  const CUdeviceptr p = managed(8 * kTestChunk);
  prefetch(p, 8 * kTestChunk, kOnDevice);
  ASSERT_EQ(cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(before, after);
  EXPECT_EQ(total, 64 * kMiB);
}

TEST_F(Residency, ReadMostlyDuplicatesAndAWriteCollapses) {
  const CUdeviceptr p = managed(kTestChunk);
  const CUdeviceptr sum = plain(kMiB);
  prefetch(p, kTestChunk, kOnHost);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_READ_MOSTLY);
  prefetch(p, kTestChunk, kOnDevice);
  EXPECT_EQ(where(p), Where::duplicated);
  ASSERT_EQ(read(p, kTestChunk, sum), CUDA_SUCCESS);
  EXPECT_EQ(where(p), Where::duplicated);
  EXPECT_EQ(statistics().faults, before_.faults);
  prefetch(p, kTestChunk, kOnHost);  // frees nothing
  EXPECT_EQ(where(p), Where::duplicated);
  const auto time_before = spillway_simulated_virtual_time();
  ASSERT_EQ(launch(p, kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(where(p), Where::device);
  EXPECT_GT(spillway_simulated_virtual_time() - time_before, 10'000'000);  // the catastrophe of a wrong ReadMostly
}

TEST_F(Residency, UnsetReadMostlyWithPreferredHostDropsTheCopyFreeOfTraffic) {
  const CUdeviceptr p = managed(kTestChunk);
  const CUdeviceptr sum = plain(kMiB);
  prefetch(p, kTestChunk, kOnHost);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnHost);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_READ_MOSTLY);
  prefetch(p, kTestChunk, kOnDevice);
  ASSERT_EQ(where(p), Where::duplicated);
  advise(p, kTestChunk, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
  EXPECT_EQ(where(p), Where::host);
  EXPECT_EQ(statistics().migrated_out_bytes, before_.migrated_out_bytes);
  ASSERT_EQ(read(p, kTestChunk, sum), CUDA_SUCCESS);
  EXPECT_EQ(statistics().faults - before_.faults, 1U);  // until SetAccessedBy is repeated
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_ACCESSED_BY);
  ASSERT_EQ(read(p, kTestChunk, sum), CUDA_SUCCESS);
  EXPECT_EQ(statistics().faults - before_.faults, 1U);
}

TEST_F(Residency, TheDriverEvictsAndCountsItWhenTheCardIsFull) {
  const CUdeviceptr p = managed(40 * kTestChunk);  // 80 MiB on a card of 64
  ASSERT_EQ(launch(p, 40 * kTestChunk), CUDA_SUCCESS);
  EXPECT_GT(statistics().driver_evictions, before_.driver_evictions);
  EXPECT_LE(statistics().managed_resident_bytes + statistics().plain_bytes, 64 * kMiB);
  EXPECT_EQ(at(p), 1.0F);
  EXPECT_EQ(at(p + 40 * kTestChunk - sizeof(float)), 1.0F);
}

TEST_F(Residency, WhatFitsIsNeverEvicted) {
  const CUdeviceptr p = managed(20 * kTestChunk);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(launch(p, 20 * kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(statistics().driver_evictions, before_.driver_evictions);
}

TEST_F(Residency, PlainMemoryPushesManagedPagesOut) {
  const CUdeviceptr p = managed(25 * kTestChunk);
  prefetch(p, 25 * kTestChunk, kOnDevice);
  EXPECT_NE(plain(40 * kMiB), 0U);
  EXPECT_GT(statistics().driver_evictions, before_.driver_evictions);
}

TEST_F(Residency, RangeAttributesSayWhatWasAdvised) {
  const CUdeviceptr p = managed(2 * kTestChunk);
  advise(p, kTestChunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnHost);
  advise(p, 2 * kTestChunk, CU_MEM_ADVISE_SET_ACCESSED_BY);
  int preferred = 7;
  EXPECT_EQ(
      cuMemRangeGetAttribute(&preferred, sizeof preferred, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, kTestChunk),
      CUDA_SUCCESS);
  EXPECT_EQ(preferred, CU_DEVICE_CPU);
  EXPECT_EQ(cuMemRangeGetAttribute(&preferred, sizeof preferred, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p,
                                   2 * kTestChunk),
            CUDA_SUCCESS);
  EXPECT_EQ(preferred, CU_DEVICE_INVALID);  // not the same everywhere
  std::array<int, 2> devices{9, 9};
  EXPECT_EQ(
      cuMemRangeGetAttribute(devices.data(), sizeof devices, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 2 * kTestChunk),
      CUDA_SUCCESS);
  EXPECT_EQ(devices[0], 0);
  EXPECT_EQ(devices[1], CU_DEVICE_INVALID);
}

TEST_F(Residency, HintsOnOtherMemoryAreRefused) {
  const CUdeviceptr p = plain(4 * kMiB);
  EXPECT_EQ(cuMemPrefetchAsync_v2(p, kTestChunk, kOnDevice, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAdvise_v2(p, kTestChunk, CU_MEM_ADVISE_SET_READ_MOSTLY, kOnDevice), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr m = managed(kTestChunk);
  EXPECT_EQ(cuMemPrefetchAsync_v2(m, 2 * kTestChunk, kOnDevice, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchAsync_v2(m, 0, kOnDevice, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace spillway::simulated
