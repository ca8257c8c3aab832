// cuMemAlloc and relatives: memory that is allocated and freed at once.
#include <sys/mman.h>

#include <algorithm>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/costs.hpp"
#include "tools/simulated_device/observers.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

CUresult allocate(MemoryKind kind, std::uint64_t bytes, unsigned flags, std::uint64_t& address) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Allocation* made = nullptr;
  SPILLWAY_RETURN_IF_FAILED(world().memory.allocate(kind, bytes, *context, flags, made));
  address = made->address;
  return CUDA_SUCCESS;
}

bool freed_by_mem_free(MemoryKind kind) {
  return kind == MemoryKind::device || kind == MemoryKind::managed || kind == MemoryKind::pool;
}

}  // namespace

CUresult mem_get_info(size_t* free, size_t* total) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  const World& w = world();
  if (total != nullptr) *total = w.settings.memory_bytes;
  if (free != nullptr)
    *free = w.settings.memory_bytes - w.devices[static_cast<std::size_t>(context->device)].plain_bytes;
  return CUDA_SUCCESS;
}

CUresult mem_alloc(CUdeviceptr* pointer, size_t bytes) {
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  SPILLWAY_RETURN_IF_FAILED(allocate(MemoryKind::device, bytes, 0, address));
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult mem_alloc_pitch(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t height, unsigned int element) {
  if (pointer == nullptr || pitch == nullptr || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  if (width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr std::size_t alignment = 512;
  const std::size_t row = (width + alignment - 1) / alignment * alignment;
  SPILLWAY_RETURN_IF_FAILED(mem_alloc(pointer, row * height));
  *pitch = row;
  return CUDA_SUCCESS;
}

CUresult mem_free(CUdeviceptr pointer) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  if (pointer == 0) return CUDA_SUCCESS;
  World& w = world();
  const Allocation* allocation = w.memory.exact(pointer);
  if (allocation == nullptr || !freed_by_mem_free(allocation->kind)) {
    w.memory.note_bad_free(pointer);
    return CUDA_ERROR_INVALID_VALUE;
  }
  wait_for_device(allocation->device);
  allocation = w.memory.exact(pointer);  // another thread may have freed it while this one waited
  if (allocation == nullptr) {
    w.memory.note_bad_free(pointer);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (allocation->kind == MemoryKind::managed) {
    const auto with_pages = std::count_if(allocation->chunks.begin(), allocation->chunks.end(),
                                          [](const Chunk& chunk) { return chunk.has_host_pages; });
    advance_thread(with_pages * costs::kManagedFreeChunk);
  }
  if (allocation->kind == MemoryKind::pool) note_pool_free(*allocation);
  w.memory.release(pointer);
  return CUDA_SUCCESS;
}

CUresult mem_get_address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  const Allocation* allocation = world().memory.containing(pointer);
  if (allocation == nullptr || allocation->kind == MemoryKind::registered) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = allocation->address;
  if (bytes != nullptr) *bytes = allocation->bytes;
  return CUDA_SUCCESS;
}

CUresult mem_alloc_host(void** pointer, size_t bytes) { return mem_host_alloc(pointer, bytes, 0); }

CUresult mem_host_alloc(void** pointer, size_t bytes, unsigned int flags) {
  constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pointer == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  SPILLWAY_RETURN_IF_FAILED(allocate(MemoryKind::pinned, bytes, flags, address));
  *pointer = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

CUresult mem_free_host(void* pointer) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const Allocation* allocation = world().memory.exact(address);
  if (allocation == nullptr || allocation->kind != MemoryKind::pinned) {
    if (pointer != nullptr) world().memory.note_bad_free(address);
    return CUDA_ERROR_INVALID_VALUE;
  }
  wait_for_device(allocation->device);
  if (world().memory.exact(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  world().memory.release(address);
  return CUDA_SUCCESS;
}

CUresult mem_host_get_device_pointer(CUdeviceptr* device_pointer, void* pointer, unsigned int flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const Allocation* allocation = world().memory.containing(address);
  const bool host =
      allocation != nullptr && (allocation->kind == MemoryKind::pinned || allocation->kind == MemoryKind::registered);
  if (device_pointer == nullptr || flags != 0 || !host) return CUDA_ERROR_INVALID_VALUE;
  *device_pointer = address;
  return CUDA_SUCCESS;
}

CUresult mem_host_get_flags(unsigned int* flags, void* pointer) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const Allocation* allocation = world().memory.containing(reinterpret_cast<std::uint64_t>(pointer));
  if (flags == nullptr || allocation == nullptr || allocation->kind != MemoryKind::pinned)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

CUresult mem_host_register(void* pointer, size_t bytes, unsigned int flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (pointer == nullptr || bytes == 0 || world().memory.is_device_address(address)) return CUDA_ERROR_INVALID_VALUE;
  if (world().memory.containing(address) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Allocation registered;
  registered.address = address;
  registered.bytes = registered.reserved = bytes;
  registered.kind = MemoryKind::registered;
  registered.context = context;
  registered.device = context->device;
  registered.flags = flags;
  world().memory.note(std::move(registered));
  return CUDA_SUCCESS;
}

CUresult mem_host_unregister(void* pointer) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const Allocation* allocation = world().memory.exact(address);
  if (allocation == nullptr || allocation->kind != MemoryKind::registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  wait_for_device(allocation->device);
  world().memory.release(address);
  return CUDA_SUCCESS;
}

CUresult mem_alloc_managed(CUdeviceptr* pointer, size_t bytes, unsigned int flags) {
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  SPILLWAY_RETURN_IF_FAILED(allocate(MemoryKind::managed, bytes, flags, address));
  observe_making();
  *pointer = address;
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated::driver
