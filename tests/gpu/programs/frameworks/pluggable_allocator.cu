// An allocator for torch.cuda.memory.CUDAPluggableAllocator: cudaMalloc and cudaFree, and the peak of what lived at
// once.
#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>

namespace {
std::atomic<unsigned long long> live_bytes{0};
std::atomic<unsigned long long> peak_bytes{0};
}  // namespace

extern "C" {

void* spillway_test_allocate(ssize_t bytes, int device, cudaStream_t /*stream*/) {
  void* pointer = nullptr;
  if (cudaSetDevice(device) != cudaSuccess || cudaMalloc(&pointer, static_cast<size_t>(bytes)) != cudaSuccess)
    return nullptr;
  const unsigned long long live = live_bytes += static_cast<unsigned long long>(bytes);
  unsigned long long peak = peak_bytes;
  while (peak < live && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return pointer;
}

void spillway_test_release(void* pointer, ssize_t bytes, int /*device*/, cudaStream_t /*stream*/) {
  live_bytes -= static_cast<unsigned long long>(bytes);
  cudaFree(pointer);
}

unsigned long long spillway_test_peak() { return peak_bytes; }
}
