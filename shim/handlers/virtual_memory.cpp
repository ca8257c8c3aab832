// Map-style allocation: counted by its physical handles. Where the device budget ends, an ordinary handle becomes host
// memory: mapped and used by the program exactly as device memory is, over the link, and there for good.
#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>
#include <vector>

#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/handlers/allocation.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/library.hpp"
#include "shim/log.hpp"
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

// The host node next to the device, if host memory can stand in for device memory there. The driver is asked once.
std::optional<int> host_node(int device) {
  constexpr int kUnknown = 0;
  constexpr int kNone = 1;
  constexpr int kFirst = 2;
  static std::array<std::atomic<int>, 64> nodes{};
  if (device < 0 || static_cast<std::size_t>(device) >= nodes.size()) return std::nullopt;
  std::atomic<int>& known = nodes[static_cast<std::size_t>(device)];
  if (known == kUnknown) {
    int supported = 0;
    int node = 0;
    const Driver& real = driver();
    const bool can =
        real.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                  device) == CUDA_SUCCESS &&
        supported == 1 && real.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS;
    // A machine without NUMA says -1, and has one node.
    known = can ? kFirst + std::max(node, 0) : kNone;
  }
  return known == kNone ? std::nullopt : std::optional(known - kFirst);
}

// Device memory without a property that host memory lacks. A file descriptor as handle type is allowed, as caching
// allocators ask for it whether they share memory or not, and so is the wish for RDMA, which they state likewise.
bool ordinary(const CUmemAllocationProp& asked, unsigned long long flags) {
  const bool shared_by_file = asked.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return asked.type == CU_MEM_ALLOCATION_TYPE_PINNED && flags == 0 && asked.allocFlags.compressionType == 0 &&
         asked.allocFlags.usage == 0 && (asked.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE || shared_by_file);
}

// Libraries that make memory to share it: their handles go to other devices and processes, and to the network.
bool shares_memory(const void* caller) {
  const std::string path = calling_library(caller).path;
  const std::string_view name = std::string_view(path).substr(path.find_last_of('/') + 1);
  return name.starts_with("libnccl") || name.starts_with("libnvshmem");
}

CUresult create_on_host(RealCall<PFN_cuMemCreate_v10020>& real, CUmemGenericAllocationHandle* handle, std::size_t size,
                        const CUmemAllocationProp& asked, int node) {
  CUmemAllocationProp host = asked;
  host.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
  host.allocFlags.gpuDirectRDMACapable = 0;
  CUresult result = real.function()(handle, size, &host, 0);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY || host.requestedHandleTypes == 0) return result;
  host.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  return real.function()(handle, size, &host, 0);
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
  const auto made = [&](CUresult result, const std::optional<CUmemAllocationProp>& asked) {
    const policy::Address address = result == CUDA_SUCCESS ? address_of_handle(*handle) : policy::Address{};
    if (result == CUDA_SUCCESS) physical_memory().created(*handle, {address, size, asked});
    return DriverMemory{result, address, policy::Bytes(size)};
  };
  calls.objection = [&] { return objection_to(size, prop, flags); };
  calls.plain = [&] { return made(real(handle, size, prop, flags), std::nullopt); };
  const auto node = ordinary(*prop, flags) ? host_node(prop->location.id) : std::nullopt;
  if (node && !shares_memory(real.caller())) {
    request.kind = policy::AllocationKind::stretchable;
    calls.managed = [&] { return made(create_on_host(real, handle, size, *prop, *node), *prop); };
  }
  return real.answer(allocate(*session, request, calls));
}

CUresult release_physical(RealCall<PFN_cuMemRelease_v10020>& real, CUmemGenericAllocationHandle_v1 handle) {
  const CUresult result = real(handle);
  if (result != CUDA_SUCCESS) return result;
  if (const auto gone = physical_memory().released(handle)) forget(*gone);
  return result;
}

// The program asked for device memory, and shall see that.
CUresult physical_properties(RealCall<PFN_cuMemGetAllocationPropertiesFromHandle_v10020>& real,
                             CUmemAllocationProp_v1* prop, CUmemGenericAllocationHandle_v1 handle) {
  const CUresult result = real(prop, handle);
  if (result != CUDA_SUCCESS || prop == nullptr) return result;
  if (const auto asked = physical_memory().asked(handle)) *prop = *asked;
  return result;
}

CUresult export_physical(RealCall<PFN_cuMemExportToShareableHandle_v10020>& real, void* shareable_handle,
                         CUmemGenericAllocationHandle_v1 handle, CUmemAllocationHandleType handle_type,
                         unsigned long long flags) {
  const CUresult result = real(shareable_handle, handle, handle_type, flags);
  if (result != CUDA_SUCCESS && physical_memory().asked(handle)) {
    SPILLWAY_LOG_ONCE(
        warning,
        "map-style memory that is on the host cannot be shared with another process; keep it on the device by "
        "a rule that has backing = \"device\", or with memory.spill_vmm = \"off\"");
  }
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
  if (result != CUDA_SUCCESS) return result;
  const auto registered = physical_memory().mapped(ptr, size, offset, handle);
  if (Session* session = Session::get(); session != nullptr && registered) session->mapped(*registered, {ptr});
  return result;
}

CUresult unmap_physical(RealCall<PFN_cuMemUnmap_v10020>& real, CUdeviceptr_v2 ptr, size_t size) {
  const CUresult result = real(ptr, size);
  Session* session = Session::get();
  if (result != CUDA_SUCCESS || session == nullptr) return result;
  for (const EndedMapping& end : physical_memory().unmapped(ptr, size)) {
    if (end.whole) session->unmapped(end.registered, end.address);
    if (end.gone) forget(end.registered);
  }
  return result;
}

}  // namespace spillway::shim::handlers
