// The program's own advice and prefetches: forwarded and left alone.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult program_advice(RealCall<PFN_cuMemAdvise_v8000>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                        CUmem_advise advice, CUdevice_v1 device) {
  return real(dev_ptr, count, advice, device);
}

CUresult program_advice(RealCall<PFN_cuMemAdvise_v12020>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                        CUmem_advise advice, CUmemLocation_v1 location) {
  return real(dev_ptr, count, advice, location);
}

CUresult program_prefetch(RealCall<PFN_cuMemPrefetchAsync_v8000>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                          CUdevice_v1 dst_device, CUstream h_stream) {
  return real(dev_ptr, count, dst_device, h_stream);
}

CUresult program_prefetch(RealCall<PFN_cuMemPrefetchAsync_v12020>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                          CUmemLocation_v1 location, unsigned int flags, CUstream h_stream) {
  return real(dev_ptr, count, location, flags, h_stream);
}

}  // namespace spillway::shim::handlers
