// cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged and cuMemFree.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult allocate_linear(RealCall<PFN_cuMemAlloc_v3020>& real, CUdeviceptr_v2* dptr, size_t bytesize) {
  return real(dptr, bytesize);
}

CUresult allocate_pitched(RealCall<PFN_cuMemAllocPitch_v3020>& real, CUdeviceptr_v2* dptr, size_t* p_pitch,
                          size_t width_in_bytes, size_t height, unsigned int element_size_bytes) {
  return real(dptr, p_pitch, width_in_bytes, height, element_size_bytes);
}

CUresult free_linear(RealCall<PFN_cuMemFree_v3020>& real, CUdeviceptr_v2 dptr) { return real(dptr); }

CUresult allocate_managed(RealCall<PFN_cuMemAllocManaged_v6000>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                          unsigned int flags) {
  return real(dptr, bytesize, flags);
}

}  // namespace spillway::shim::handlers
