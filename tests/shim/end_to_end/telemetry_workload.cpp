#include "tests/shim/end_to_end/telemetry_probe.hpp"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/simulated_device/test_kernels.hpp"

namespace spillway::probe {

namespace {

constexpr std::size_t kBufferBytes = 2 * kMiB;
constexpr std::uint64_t kPause = 32;  // launches

}  // namespace

Workload::Workload(std::size_t buffers, std::size_t streams, CUdevice device) : buffers_(buffers), streams_(streams) {
  int image = 0;
  bool right = cuInit(0) == CUDA_SUCCESS && cuCtxCreate_v2(&device_.context, 0, device) == CUDA_SUCCESS &&
               cuLibraryLoadData(&device_.library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0) == CUDA_SUCCESS &&
               cuLibraryGetKernel(&device_.add_one, device_.library, kAddOne) == CUDA_SUCCESS;
  for (CUdeviceptr& buffer : buffers_) {
    right = right && cuMemAlloc_v2(&buffer, kBufferBytes) == CUDA_SUCCESS &&
            cuMemsetD8_v2(buffer, 0, kBufferBytes) == CUDA_SUCCESS;
  }
  for (CUstream& stream : streams_) right = right && cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
  if (right) return;
  std::fprintf(stderr, "telemetry_probe: the simulated device does not start\n");
  std::exit(3);
}

Workload::~Workload() {
  finish();
  for (const CUstream stream : streams_) cuStreamDestroy_v2(stream);
  for (const CUdeviceptr buffer : buffers_) cuMemFree_v2(buffer);
}

CUresult Workload::launch_on(CUdeviceptr data, int elements, CUstream stream) {
  void* parameters[] = {&data, &elements};
  return cuLaunchKernel(reinterpret_cast<CUfunction>(device_.add_one), static_cast<unsigned>(elements) / 256, 1, 1, 256,
                        1, 1, 0, stream, parameters, nullptr);
}

void Workload::launch(int count) {
  for (int i = 0; i < count; ++i) {
    const CUdeviceptr data = buffers_[random_() % buffers_.size()];
    // Few threads and elements: the simulated kernel takes the host's time for each.
    const int elements = random_() % 3 == 0 ? 1 << 14 : 1 << 15;
    const CUresult code = launch_on(data, elements, streams_[random_() % streams_.size()]);
    if (code != CUDA_SUCCESS) say("launch", code);
    // As a program that does something else as well: on a busy machine the library's threads get their turn.
    if (++launches_ % kPause == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Workload::finish() { cuCtxSynchronize(); }

float Workload::sum() {
  float total = 0;
  for (const CUdeviceptr buffer : buffers_) {
    float value = -1;
    cuMemcpyDtoH_v2(&value, buffer, sizeof value);
    total += value;
  }
  return total;
}

}  // namespace spillway::probe
