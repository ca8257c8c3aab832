// Stream-ordered allocation and its pools.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult allocate_async(RealCall<PFN_cuMemAllocAsync_v11020>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                        CUstream h_stream) {
  return real(dptr, bytesize, h_stream);
}

CUresult allocate_from_pool(RealCall<PFN_cuMemAllocFromPoolAsync_v11020>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                            CUmemoryPool pool, CUstream h_stream) {
  return real(dptr, bytesize, pool, h_stream);
}

CUresult free_async(RealCall<PFN_cuMemFreeAsync_v11020>& real, CUdeviceptr_v2 dptr, CUstream h_stream) {
  return real(dptr, h_stream);
}

CUresult create_pool(RealCall<PFN_cuMemPoolCreate_v11020>& real, CUmemoryPool* pool,
                     const CUmemPoolProps_v1* pool_props) {
  return real(pool, pool_props);
}

CUresult destroy_pool(RealCall<PFN_cuMemPoolDestroy_v11020>& real, CUmemoryPool pool) { return real(pool); }

CUresult trim_pool(RealCall<PFN_cuMemPoolTrimTo_v11020>& real, CUmemoryPool pool, size_t min_bytes_to_keep) {
  return real(pool, min_bytes_to_keep);
}

}  // namespace spillway::shim::handlers
