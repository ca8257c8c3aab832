// The program's own advice and prefetches: forwarded and left alone, but for memory that it takes as device memory.
#include "shim/handlers.hpp"
#include "shim/handlers/spilled_memory.hpp"

namespace spillway::shim::handlers {

CUresult program_advice(RealCall<PFN_cuMemAdvise_v8000>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                        CUmem_advise advice, CUdevice_v1 device) {
  return real.answer(for_managed_memory_only(dev_ptr, [&](CUdeviceptr at) { return real(at, count, advice, device); }));
}

CUresult program_advice(RealCall<PFN_cuMemAdvise_v12020>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                        CUmem_advise advice, CUmemLocation_v1 location) {
  return real.answer(
      for_managed_memory_only(dev_ptr, [&](CUdeviceptr at) { return real(at, count, advice, location); }));
}

CUresult program_prefetch(RealCall<PFN_cuMemPrefetchAsync_v8000>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                          CUdevice_v1 dst_device, CUstream h_stream) {
  return real.answer(
      for_managed_memory_only(dev_ptr, [&](CUdeviceptr at) { return real(at, count, dst_device, h_stream); }));
}

CUresult program_prefetch(RealCall<PFN_cuMemPrefetchAsync_v12020>& real, CUdeviceptr_v2 dev_ptr, size_t count,
                          CUmemLocation_v1 location, unsigned int flags, CUstream h_stream) {
  return real.answer(
      for_managed_memory_only(dev_ptr, [&](CUdeviceptr at) { return real(at, count, location, flags, h_stream); }));
}

CUresult program_prefetch(RealCall<PFN_cuMemPrefetchBatchAsync_v13000>& real, CUdeviceptr_v2* dptrs, size_t* sizes,
                          size_t count, CUmemLocation_v1* prefetch_locs, size_t* prefetch_loc_idxs,
                          size_t num_prefetch_locs, unsigned long long flags, CUstream h_stream) {
  return real.answer(for_managed_memory_only(dptrs, count, [&](CUdeviceptr* at) {
    return real(at, sizes, count, prefetch_locs, prefetch_loc_idxs, num_prefetch_locs, flags, h_stream);
  }));
}

CUresult program_discard(RealCall<PFN_cuMemDiscardBatchAsync_v13000>& real, CUdeviceptr_v2* dptrs, size_t* sizes,
                         size_t count, unsigned long long flags, CUstream h_stream) {
  return real.answer(
      for_managed_memory_only(dptrs, count, [&](CUdeviceptr* at) { return real(at, sizes, count, flags, h_stream); }));
}

CUresult program_discard(RealCall<PFN_cuMemDiscardAndPrefetchBatchAsync_v13000>& real, CUdeviceptr_v2* dptrs,
                         size_t* sizes, size_t count, CUmemLocation_v1* prefetch_locs, size_t* prefetch_loc_idxs,
                         size_t num_prefetch_locs, unsigned long long flags, CUstream h_stream) {
  return real.answer(for_managed_memory_only(dptrs, count, [&](CUdeviceptr* at) {
    return real(at, sizes, count, prefetch_locs, prefetch_loc_idxs, num_prefetch_locs, flags, h_stream);
  }));
}

CUresult program_attachment(RealCall<PFN_cuStreamAttachMemAsync_v6000>& real, CUstream h_stream, CUdeviceptr_v2 dptr,
                            size_t length, unsigned int flags) {
  return real.answer(for_managed_memory_only(dptr, [&](CUdeviceptr at) { return real(h_stream, at, length, flags); }));
}

}  // namespace spillway::shim::handlers
