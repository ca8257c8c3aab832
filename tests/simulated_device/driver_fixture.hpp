// A context on the stand-in driver for each test, and the checks the tests share.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/simulated_device/test_kernels.hpp"
#include "tools/simulated_device/inspection.hpp"

namespace spillway::simulated {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kTestChunk = 2 * kMiB;
inline constexpr CUmemLocation kOnDevice{CU_MEM_LOCATION_TYPE_DEVICE, 0};
inline constexpr CUmemLocation kOnHost{CU_MEM_LOCATION_TYPE_HOST, 0};

enum class Where { unpopulated = 0, device = 1, host = 2, duplicated = 3, not_managed = -1 };

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("SPILLWAY_SIMULATED_KERNELS", SPILLWAY_TEST_TWINS, 1);
    setenv("SPILLWAY_SIMULATED_MEMORY", "64MiB", 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate_v2(&context_, 0, 0), CUDA_SUCCESS);
    int image = 0;
    ASSERT_EQ(cuLibraryLoadData(&library_, &image, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuLibraryGetKernel(&add_one_, library_, kAddOne), CUDA_SUCCESS);
    before_ = statistics();
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxDestroy_v2(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuLibraryUnload(library_), CUDA_SUCCESS);
  }

  static SimulatedStatistics statistics() {
    SimulatedStatistics now;
    spillway_simulated_statistics(&now);
    return now;
  }
  static Where where(CUdeviceptr address) { return static_cast<Where>(spillway_simulated_residency(address)); }
  static std::string report() {
    std::string text(spillway_simulated_report(nullptr, 0) + 1024, '\0');
    text.resize(spillway_simulated_report(text.data(), text.size()));
    return text;
  }

  static CUdeviceptr managed(std::size_t bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    return pointer;
  }
  static CUdeviceptr plain(std::size_t bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc_v2(&pointer, bytes), CUDA_SUCCESS);
    return pointer;
  }
  static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    EXPECT_EQ(cuStreamCreate(&made, flags), CUDA_SUCCESS);
    return made;
  }
  static void prefetch(CUdeviceptr pointer, std::size_t bytes, CUmemLocation to) {
    EXPECT_EQ(cuMemPrefetchAsync_v2(pointer, bytes, to, 0, nullptr), CUDA_SUCCESS);
  }
  static void advise(CUdeviceptr pointer, std::size_t bytes, CUmem_advise advice, CUmemLocation at = kOnDevice) {
    EXPECT_EQ(cuMemAdvise_v2(pointer, bytes, advice, at), CUDA_SUCCESS);
  }
  // add_one over the whole range: reads and writes it.
  CUresult launch(CUdeviceptr pointer, std::size_t bytes, CUstream on = nullptr) const {
    int count = static_cast<int>(bytes / sizeof(float));
    void* parameters[] = {&pointer, &count};
    return cuLaunchKernel(reinterpret_cast<CUfunction>(add_one_), (static_cast<unsigned>(count) + 255) / 256, 1, 1, 256,
                          1, 1, 0, on, parameters, nullptr);
  }
  // read_all over the range; the sum goes to `out`, plain memory.
  CUresult read(CUdeviceptr pointer, std::size_t bytes, CUdeviceptr out) const {
    CUkernel kernel = nullptr;
    EXPECT_EQ(cuLibraryGetKernel(&kernel, library_, kReadAll), CUDA_SUCCESS);
    std::size_t count = bytes / sizeof(float);
    void* parameters[] = {&pointer, &out, &count};
    return cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  }
  static float at(CUdeviceptr pointer) {
    float value = -1;
    EXPECT_EQ(cuMemcpyDtoH_v2(&value, pointer, sizeof value), CUDA_SUCCESS);
    return value;
  }

  CUcontext context_ = nullptr;
  CUlibrary library_ = nullptr;
  CUkernel add_one_ = nullptr;
  SimulatedStatistics before_;
};

}  // namespace spillway::simulated
