// A library named as NCCL's is, which asks for device memory.
#include <cstddef>

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

extern "C" __attribute__((visibility("default"))) CUresult collective_buffer(CUdeviceptr* out, std::size_t bytes) {
  const CUresult code = cuMemAlloc_v2(out, bytes);
  if (code != CUDA_SUCCESS) *out = 0;  // work after the call: else the driver would return to our caller, and not to us
  return code;
}
