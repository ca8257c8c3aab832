// Map-style allocation: counted by its physical handles, refused early where the budget ends, as it cannot be spilled.
#include <vector>

#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/handlers/allocation.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/physical_memory.hpp"

namespace spillway::shim::handlers {
namespace {

void forget(policy::Address registered) {
  Session* session = Session::get();
  if (session == nullptr) return;
  if (const auto known = session->begin_free(registered, 0)) session->end_free(*known, CUDA_SUCCESS);
}

// What the driver says of the properties, and what it asks of a size.
CUresult objection_to(size_t size, const CUmemAllocationProp_v1* prop, unsigned long long flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;  // none are defined
  const auto granularity_of = driver().cuMemGetAllocationGranularity;
  size_t granularity = 0;
  if (granularity_of == nullptr) return CUDA_SUCCESS;
  const CUresult code = granularity_of(&granularity, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (code != CUDA_SUCCESS) return code;
  return granularity != 0 && size % granularity != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUresult create_physical(RealCall<PFN_cuMemCreate_v10020>& real, CUmemGenericAllocationHandle_v1* handle, size_t size,
                         const CUmemAllocationProp_v1* prop, unsigned long long flags) {
  Session* session = Session::get();
  // Host memory asked for by name is the program's own affair.
  if (session == nullptr || handle == nullptr || prop == nullptr || size == 0 ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return real(handle, size, prop, flags);
  }
  AllocationRequest request;
  request.device = {static_cast<std::uint32_t>(prop->location.id)};
  request.bytes = policy::Bytes(size);
  request.kind = policy::AllocationKind::physical;
  request.caller = real.caller();
  AllocationCalls calls;
  calls.plain = [&] {
    const CUresult result = real(handle, size, prop, flags);
    const policy::Address address = result == CUDA_SUCCESS ? address_of_handle(*handle) : policy::Address{};
    if (result == CUDA_SUCCESS) physical_memory().created(*handle, address);
    return DriverMemory{result, address, policy::Bytes(size)};
  };
  calls.objection = [&] { return objection_to(size, prop, flags); };
  return real.answer(allocate(*session, request, calls));
}

CUresult release_physical(RealCall<PFN_cuMemRelease_v10020>& real, CUmemGenericAllocationHandle_v1 handle) {
  const CUresult result = real(handle);
  if (result != CUDA_SUCCESS) return result;
  if (const auto gone = physical_memory().released(handle)) forget(*gone);
  return result;
}

CUresult retain_physical(RealCall<PFN_cuMemRetainAllocationHandle_v11000>& real,
                         CUmemGenericAllocationHandle_v1* handle, void* addr) {
  const CUresult result = real(handle, addr);
  if (result == CUDA_SUCCESS && handle != nullptr) physical_memory().retained(*handle);
  return result;
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
  const CUresult result = real(ptr, size, offset, handle, flags);
  if (result == CUDA_SUCCESS) physical_memory().mapped(ptr, size, handle);
  return result;
}

CUresult unmap_physical(RealCall<PFN_cuMemUnmap_v10020>& real, CUdeviceptr_v2 ptr, size_t size) {
  const CUresult result = real(ptr, size);
  if (result != CUDA_SUCCESS) return result;
  for (const policy::Address gone : physical_memory().unmapped(ptr, size)) forget(gone);
  return result;
}

}  // namespace spillway::shim::handlers
