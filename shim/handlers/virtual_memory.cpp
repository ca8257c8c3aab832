// Map-style allocation: physical handles, address ranges, mappings.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult create_physical(RealCall<PFN_cuMemCreate_v10020>& real, CUmemGenericAllocationHandle_v1* handle, size_t size,
                         const CUmemAllocationProp_v1* prop, unsigned long long flags) {
  return real(handle, size, prop, flags);
}

CUresult release_physical(RealCall<PFN_cuMemRelease_v10020>& real, CUmemGenericAllocationHandle_v1 handle) {
  return real(handle);
}

CUresult retain_physical(RealCall<PFN_cuMemRetainAllocationHandle_v11000>& real,
                         CUmemGenericAllocationHandle_v1* handle, void* addr) {
  return real(handle, addr);
}

CUresult import_physical(RealCall<PFN_cuMemImportFromShareableHandle_v10020>& real,
                         CUmemGenericAllocationHandle_v1* handle, void* os_handle,
                         CUmemAllocationHandleType sh_handle_type) {
  return real(handle, os_handle, sh_handle_type);
}

CUresult reserve_addresses(RealCall<PFN_cuMemAddressReserve_v10020>& real, CUdeviceptr_v2* ptr, size_t size,
                           size_t alignment, CUdeviceptr_v2 addr, unsigned long long flags) {
  return real(ptr, size, alignment, addr, flags);
}

CUresult free_addresses(RealCall<PFN_cuMemAddressFree_v10020>& real, CUdeviceptr_v2 ptr, size_t size) {
  return real(ptr, size);
}

CUresult map_physical(RealCall<PFN_cuMemMap_v10020>& real, CUdeviceptr_v2 ptr, size_t size, size_t offset,
                      CUmemGenericAllocationHandle_v1 handle, unsigned long long flags) {
  return real(ptr, size, offset, handle, flags);
}

CUresult unmap_physical(RealCall<PFN_cuMemUnmap_v10020>& real, CUdeviceptr_v2 ptr, size_t size) {
  return real(ptr, size);
}

}  // namespace spillway::shim::handlers
