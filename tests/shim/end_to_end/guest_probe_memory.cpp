// What several of the probe's scenarios ask of memory.
#include <cstdlib>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {

CUdeviceptr zeroed(std::size_t bytes) {
  CUdeviceptr memory = 0;
  if (cuMemAlloc_v2(&memory, bytes) != CUDA_SUCCESS || cuMemsetD8_v2(memory, 0, bytes) != CUDA_SUCCESS) {
    std::printf("no memory\n");
    std::exit(3);
  }
  return memory;
}

float first_value(CUdeviceptr memory) {
  float value = -1;
  cuMemcpyDtoH_v2(&value, memory, sizeof value);
  return value;
}

std::size_t free_on_device() {
  std::size_t free = 0;
  std::size_t total = 0;
  cuMemGetInfo_v2(&free, &total);
  return free;
}

CUmemAllocationProp on_device(CUmemAllocationHandleType shared) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = shared;
  return properties;
}

}  // namespace spillway::probe
