// A context of the simulated device with a kernel and memory for it.
#pragma once

#include <gtest/gtest.h>

#include "shim/driver.hpp"
#include "tests/simulated_device/test_kernels.hpp"

namespace spillway::shim {

struct LaunchingPlace {
  static constexpr int kElements = 1 << 12;

  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUfunction kernel = nullptr;
  CUdeviceptr data = 0;

  void make() {
    CUlibrary library = nullptr;
    CUkernel add_one = nullptr;
    int image = 0;
    ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuLibraryGetKernel(&add_one, library, kAddOne), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&data, kElements * sizeof(float)), CUDA_SUCCESS);
    kernel = reinterpret_cast<CUfunction>(add_one);
  }
  // By the driver's own function, or by the program's call.
  [[nodiscard]] CUresult launch(CUstream in, int elements = kElements) const {
    return launch_by(driver().cuLaunchKernel, in, elements);
  }
  [[nodiscard]] CUresult launch_by(decltype(&cuLaunchKernel) call, CUstream in, int elements = kElements) const {
    int count = elements;
    CUdeviceptr address = data;
    void* parameters[] = {&address, &count};
    return call(kernel, static_cast<unsigned>(elements) / 256, 1, 1, 256, 1, 1, 0, in, parameters, nullptr);
  }
};

}  // namespace spillway::shim
