// cuMemCreate, cuMemMap and relatives. Physical memory is a file, so that it can be seen at several addresses.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {

std::unordered_map<CUmemGenericAllocationHandle, PhysicalMemory>& physical_memory() {
  static auto* const all = new std::unordered_map<CUmemGenericAllocationHandle, PhysicalMemory>;  // world's lock
  return *all;
}

void drop_physical(CUmemGenericAllocationHandle handle) {
  const auto found = physical_memory().find(handle);
  if (--found->second.references > 0) return;
  close(found->second.file);
  if (found->second.device != kHostLocation) uncharge_device(found->second.device, found->second.bytes);
  physical_memory().erase(found);
}

namespace driver {
namespace {

void* pointer_to(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

bool aligned(std::uint64_t value) { return value % kChunkBytes == 0; }

// Memory of the one host node, mapped on the device: reached over the link, and no part of the card's memory.
bool is_host_memory(const CUmemAllocationProp& properties) {
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && properties.location.id == 0;
}

bool is_device_memory(const CUmemAllocationProp* properties) {
  return properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && valid_device(properties->location.id);
}

// Mappings that lie wholly in the range; none when one is cut by its edge.
std::vector<std::uint64_t> mappings_in(CUdeviceptr address, std::size_t bytes) {
  std::vector<std::uint64_t> found;
  std::uint64_t covered = 0;
  for (auto& [start, allocation] : world().memory.live()) {
    if (start < address || start >= address + bytes || allocation.kind != MemoryKind::mapping) continue;
    found.push_back(start);
    covered += allocation.bytes;
  }
  return covered == bytes ? found : std::vector<std::uint64_t>{};
}

void forget_mapping(std::uint64_t address) {
  MemoryMap& memory = world().memory;
  const Allocation mapping = *memory.exact(address);
  (void)mmap(pointer_to(address), mapping.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
  memory.release(address);
  drop_physical(mapping.physical);
}

}  // namespace

CUresult mem_address_reserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_init());
  context = current_context();
  if (pointer == nullptr || bytes == 0 || !aligned(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  AddressSpace& space = world().memory.device_space();
  std::optional<std::uint64_t> address;
  if (hint != 0 && aligned(hint) && space.take_at(hint, bytes)) address = hint;
  if (!address) address = space.take(bytes, std::max<std::uint64_t>(alignment, kChunkBytes));
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation reservation;
  reservation.address = *address;
  reservation.bytes = reservation.reserved = bytes;
  reservation.kind = MemoryKind::reservation;
  reservation.context = context;
  world().memory.note(std::move(reservation));
  *pointer = *address;
  return CUDA_SUCCESS;
}

CUresult mem_address_free(CUdeviceptr address, size_t bytes) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  World& w = world();
  const auto found = w.memory.reservations().find(address);
  if (found == w.memory.reservations().end() || found->second.bytes != bytes) {
    w.memory.note_bad_free(address);
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto mapping = w.memory.live().lower_bound(address);
  if (mapping != w.memory.live().end() && mapping->first < address + bytes)
    return CUDA_ERROR_INVALID_VALUE;  // still mapped
  w.memory.device_space().give_back(address, bytes);
  w.memory.reservations().erase(found);
  ++w.statistics.frees;
  return CUDA_SUCCESS;
}

CUresult mem_create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                    unsigned long long flags) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (handle == nullptr || bytes == 0 || !aligned(bytes) || flags != 0 || properties == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const bool host = is_host_memory(*properties);
  if (!host && !is_device_memory(properties)) return CUDA_ERROR_INVALID_VALUE;
  if (host && !world().settings.host_numa) return CUDA_ERROR_NOT_SUPPORTED;
  if (host && properties->allocFlags.gpuDirectRDMACapable != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!host && !charge_device(properties->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = memfd_create("simulated-device-memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    if (file >= 0) close(file);
    if (!host) uncharge_device(properties->location.id, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = world().next_id++;
  physical_memory()[*handle] = {file, bytes, host ? kHostLocation : properties->location.id, *properties, 1, 1};
  return CUDA_SUCCESS;
}

CUresult mem_release(CUmemGenericAllocationHandle handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const auto found = physical_memory().find(handle);
  if (found == physical_memory().end() || found->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  --found->second.handles;
  drop_physical(handle);
  return CUDA_SUCCESS;
}

CUresult mem_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                 unsigned long long flags) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  World& w = world();
  const auto physical = physical_memory().find(handle);
  const Allocation* reservation = w.memory.reservation(address);
  if (physical == physical_memory().end() || physical->second.handles == 0 || reservation == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || !aligned(address) || !aligned(bytes) || offset != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > physical->second.bytes || address + bytes > reservation->address + reservation->bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const auto next = w.memory.live().lower_bound(address);
  const bool taken =
      w.memory.containing(address) != nullptr || (next != w.memory.live().end() && next->first < address + bytes);
  if (taken) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(pointer_to(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->second.file, 0) ==
      MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++physical->second.references;
  Allocation mapping;
  mapping.address = address;
  mapping.bytes = mapping.reserved = bytes;
  mapping.kind = MemoryKind::mapping;
  // Host memory is everybody's; as the real driver, pointers to it name the first device.
  mapping.on_host = physical->second.device == kHostLocation;
  mapping.device = mapping.on_host ? 0 : physical->second.device;
  mapping.physical = handle;
  mapping.accessible = false;
  mapping.context = current_context();
  w.memory.note(std::move(mapping));
  return CUDA_SUCCESS;
}

CUresult mem_unmap(CUdeviceptr address, size_t bytes) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const auto found = mappings_in(address, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  wait_for_device(world().memory.exact(found.front())->device);
  for (const auto start : found) {
    if (world().memory.exact(start) != nullptr) forget_mapping(start);
  }
  return CUDA_SUCCESS;
}

CUresult mem_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptors, size_t count) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const auto found = mappings_in(address, bytes);
  if (found.empty() || descriptors == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (const auto start : found) {
    world().memory.exact(start)->accessible = descriptors[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  return CUDA_SUCCESS;
}

CUresult mem_get_access(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const Allocation* mapping = world().memory.containing(address);
  if (flags == nullptr || location == nullptr || mapping == nullptr || mapping->kind != MemoryKind::mapping)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult mem_get_allocation_granularity(size_t* granularity, const CUmemAllocationProp* properties,
                                        CUmemAllocationGranularity_flags) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device_memory(properties) && !is_host_memory(*properties)) return CUDA_ERROR_INVALID_VALUE;
  *granularity = kChunkBytes;
  return CUDA_SUCCESS;
}

CUresult mem_get_allocation_properties_from_handle(CUmemAllocationProp* properties,
                                                   CUmemGenericAllocationHandle handle) {
  const auto found = physical_memory().find(handle);
  if (properties == nullptr || found == physical_memory().end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = found->second.properties;
  return CUDA_SUCCESS;
}

CUresult mem_retain_allocation_handle(CUmemGenericAllocationHandle* handle, void* address) {
  const Allocation* mapping = world().memory.containing(reinterpret_cast<std::uint64_t>(address));
  if (handle == nullptr || mapping == nullptr || mapping->kind != MemoryKind::mapping) return CUDA_ERROR_INVALID_VALUE;
  PhysicalMemory& physical = physical_memory()[mapping->physical];
  ++physical.references;
  ++physical.handles;
  *handle = mapping->physical;
  return CUDA_SUCCESS;
}

CUresult mem_export_to_shareable_handle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                        unsigned long long flags) {
  const auto found = physical_memory().find(handle);
  if (out == nullptr || flags != 0 || found == physical_memory().end()) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((found->second.properties.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int copy = fcntl(found->second.file, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = copy;
  return CUDA_SUCCESS;
}

CUresult mem_import_from_shareable_handle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                          CUmemAllocationHandleType type) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int file = fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)), F_DUPFD_CLOEXEC, 0);
  const off_t bytes = file < 0 ? -1 : lseek(file, 0, SEEK_END);
  if (bytes <= 0) {
    if (file >= 0) close(file);
    return CUDA_ERROR_INVALID_VALUE;
  }
  PhysicalMemory physical{file, static_cast<std::uint64_t>(bytes), context->device, {}, 1, 1};
  physical.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical.properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, context->device};
  if (!charge_device(context->device, physical.bytes)) {
    close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = world().next_id++;
  physical_memory()[*handle] = physical;
  return CUDA_SUCCESS;
}

}  // namespace driver
}  // namespace spillway::simulated
