// Stream-ordered memory and its pools. A pool keeps nothing: what is freed goes back at once, in stream order.
#include <algorithm>
#include <unordered_map>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

struct Pool {
  int device = 0;
  bool is_default = false;
  bool destroyed = false;
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0;
  std::uint64_t used_peak = 0;
  std::unordered_map<int, CUmemAccess_flags> access;
  int reuse[3] = {1, 1, 1};
};

std::unordered_map<CUmemoryPool, std::unique_ptr<Pool>>& pools() {
  static auto* const all = new std::unordered_map<CUmemoryPool, std::unique_ptr<Pool>>;  // world's lock
  return *all;
}

Pool* find_pool(CUmemoryPool handle) {
  const auto found = pools().find(handle);
  return found == pools().end() ? nullptr : found->second.get();
}

CUmemoryPool make_pool(int device, bool is_default) {
  auto pool = std::make_unique<Pool>();
  pool->device = device;
  pool->is_default = is_default;
  const auto handle = reinterpret_cast<CUmemoryPool>(pool.get());
  pools()[handle] = std::move(pool);
  return handle;
}

CUmemoryPool default_pool(int device) {
  Device& card = world().devices[static_cast<std::size_t>(device)];
  if (card.default_pool == nullptr) card.default_pool = make_pool(device, true);
  return card.default_pool;
}

CUmemoryPool current_pool(int device) {
  Device& card = world().devices[static_cast<std::size_t>(device)];
  return card.current_pool != nullptr ? card.current_pool : default_pool(device);
}

CUresult allocate_from(CUmemoryPool handle, std::size_t bytes, CUstream stream_handle, CUdeviceptr* out) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(stream_handle, stream));
  if (stream->capture) {  // memory nodes of graphs are not simulated
    SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  }
  Pool* pool = find_pool(handle);
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation* made = nullptr;
  SPILLWAY_RETURN_IF_FAILED(world().memory.allocate(MemoryKind::pool, bytes, *stream->context, 0, made, pool->device));
  made->pool = handle;
  pool->used += made->reserved;
  pool->used_peak = std::max(pool->used_peak, pool->used);
  *out = made->address;
  return CUDA_SUCCESS;
}

}  // namespace

void note_pool_free(const Allocation& allocation) {
  if (Pool* pool = find_pool(allocation.pool)) pool->used -= allocation.reserved;
}

namespace driver {

CUresult device_get_default_mem_pool(CUmemoryPool* pool, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = default_pool(device);
  return CUDA_SUCCESS;
}

CUresult device_get_mem_pool(CUmemoryPool* pool, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = current_pool(device);
  return CUDA_SUCCESS;
}

CUresult device_set_mem_pool(CUdevice device, CUmemoryPool pool) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (find_pool(pool) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  world().devices[static_cast<std::size_t>(device)].current_pool = pool;
  return CUDA_SUCCESS;
}

CUresult mem_alloc_async(CUdeviceptr* pointer, size_t bytes, CUstream handle) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  return allocate_from(current_pool(stream->context->device), bytes, handle, pointer);
}

CUresult mem_alloc_from_pool_async(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return allocate_from(pool, bytes, stream, pointer);
}

CUresult mem_free_async(CUdeviceptr pointer, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  if (pointer == 0) return CUDA_ERROR_INVALID_VALUE;
  World& w = world();
  Allocation* allocation = w.memory.exact(pointer);
  const bool freeable = allocation != nullptr && !allocation->freeing &&
                        (allocation->kind == MemoryKind::pool || allocation->kind == MemoryKind::device);
  if (!freeable) {
    w.memory.note_bad_free(pointer);
    return CUDA_ERROR_INVALID_VALUE;
  }
  allocation->freeing = true;
  Operation operation;
  operation.run = [pointer](std::int64_t start) {
    MemoryMap& memory = world().memory;
    if (const Allocation* dying = memory.exact(pointer)) {
      note_pool_free(*dying);
      memory.release(pointer);
    }
    return start;
  };
  enqueue(stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult mem_pool_create(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (pool == nullptr || properties == nullptr || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!valid_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = make_pool(properties->location.id, false);
  return CUDA_SUCCESS;
}

CUresult mem_pool_destroy(CUmemoryPool handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const Pool* pool = find_pool(handle);
  if (pool == nullptr || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  for (Device& card : world().devices) {
    if (card.current_pool == handle) card.current_pool = nullptr;
  }
  pools().erase(handle);
  return CUDA_SUCCESS;
}

CUresult mem_pool_trim_to(CUmemoryPool pool, size_t) {
  return find_pool(pool) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult mem_pool_set_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  Pool* pool = find_pool(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = *static_cast<const cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      pool->used_peak = pool->used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      pool->reuse[0] = *static_cast<const int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      pool->reuse[1] = *static_cast<const int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse[2] = *static_cast<const int*>(value);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult mem_pool_get_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  const Pool* pool = find_pool(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* wide = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *wide = pool->release_threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *wide = pool->used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *wide = pool->used_peak;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      *static_cast<int*>(value) = pool->reuse[0];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      *static_cast<int*>(value) = pool->reuse[1];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = pool->reuse[2];
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult mem_pool_set_access(CUmemoryPool handle, const CUmemAccessDesc* map, size_t count) {
  Pool* pool = find_pool(handle);
  if (pool == nullptr || map == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !valid_device(map[i].location.id))
      return CUDA_ERROR_INVALID_DEVICE;
    pool->access[map[i].location.id] = map[i].flags;
  }
  return CUDA_SUCCESS;
}

CUresult mem_pool_get_access(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  const Pool* pool = find_pool(handle);
  if (pool == nullptr || flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = pool->access.find(location->id);
  *flags = location->id == pool->device  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : found == pool->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                                         : found->second;
  return CUDA_SUCCESS;
}

}  // namespace driver
}  // namespace spillway::simulated
