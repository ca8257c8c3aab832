// Prefetch, advice and range attributes of managed memory.
#include <algorithm>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/costs.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

// The managed allocation that holds the whole range; the driver refuses anything else.
CUresult find_managed(CUdeviceptr pointer, std::size_t bytes, Allocation*& out) {
  out = world().memory.containing(pointer);
  if (bytes == 0 || out == nullptr || out->kind != MemoryKind::managed) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t whole_pages = (out->bytes + 4095) / 4096 * 4096;
  return pointer + bytes <= out->address + whole_pages ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult location_of(CUmemLocation location, int& out) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      out = location.id;
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      out = kHostLocation;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(out)) return CUDA_ERROR_INVALID_DEVICE;
  return world().settings.managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUmemLocation location_of(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUresult prefetch(CUdeviceptr pointer, std::size_t bytes, int location, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  Allocation* allocation = nullptr;
  SPILLWAY_RETURN_IF_FAILED(find_managed(pointer, bytes, allocation));
  advance_thread(costs::kPrefetchCall);
  Operation operation;
  operation.run = [=, device = stream->context->device](std::int64_t start) {
    Allocation* still = world().memory.containing(pointer);
    if (still == nullptr || still->kind != MemoryKind::managed) return start;
    const Moved moved = prefetch_managed(*still, pointer, bytes, location);
    Device& card = world().devices[static_cast<std::size_t>(device)];
    std::int64_t& link = moved.out_bytes > moved.in_bytes ? card.link_out_free : card.link_in_free;
    if (moved.in_bytes + moved.out_bytes == 0) return start + moved.time;
    link = std::max(link, start) + moved.time;
    return link;
  };
  enqueue(stream, std::move(operation));
  return CUDA_SUCCESS;
}

// Prefetches of a batch: range i goes to the last location whose index is not beyond i.
CUresult prefetch_batch(const CUdeviceptr* pointers, const std::size_t* sizes, std::size_t count,
                        const CUmemLocation* locations, const std::size_t* indices, std::size_t location_count,
                        CUstream stream) {
  if (pointers == nullptr || sizes == nullptr || locations == nullptr || indices == nullptr || count == 0 ||
      location_count == 0 || location_count > count || indices[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::size_t current = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (current + 1 < location_count && indices[current + 1] <= i) ++current;
    int location = kNoLocation;
    SPILLWAY_RETURN_IF_FAILED(location_of(locations[current], location));
    SPILLWAY_RETURN_IF_FAILED(prefetch(pointers[i], sizes[i], location, stream));
  }
  return CUDA_SUCCESS;
}

CUresult advise(CUdeviceptr pointer, std::size_t bytes, CUmem_advise advice, CUmemLocation where) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Allocation* allocation = nullptr;
  SPILLWAY_RETURN_IF_FAILED(find_managed(pointer, bytes, allocation));
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  int location = kNoLocation;
  const bool placed = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                      advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (placed) SPILLWAY_RETURN_IF_FAILED(location_of(where, location));
  advance_thread(advise_managed(*allocation, pointer, bytes, advice, location));
  return CUDA_SUCCESS;
}

template <class Value>
int common(const Allocation& allocation, CUdeviceptr pointer, std::size_t bytes, Value value, int mixed) {
  const std::size_t first = (pointer - allocation.address) / kChunkBytes;
  const std::size_t last = (pointer + bytes - 1 - allocation.address) / kChunkBytes;
  const int found = value(allocation.chunks[first]);
  for (std::size_t i = first; i <= last; ++i) {
    if (value(allocation.chunks[i]) != found) return mixed;
  }
  return found;
}

void accessed_by(const Allocation& allocation, CUdeviceptr pointer, std::size_t bytes, int* out, std::size_t room) {
  std::size_t used = 0;
  const auto all = [&](auto value) { return common(allocation, pointer, bytes, value, 0) != 0; };
  if (used < room && all([](const Chunk& chunk) { return static_cast<int>(chunk.accessed_by_host); }))
    out[used++] = CU_DEVICE_CPU;
  for (int device = 0; valid_device(device) && used < room; ++device) {
    if (all([device](const Chunk& chunk) { return (chunk.accessed_by >> device) & 1; })) out[used++] = device;
  }
  while (used < room) out[used++] = CU_DEVICE_INVALID;
}

int preferred_type(int location) {
  if (location == kNoLocation) return CU_MEM_LOCATION_TYPE_INVALID;
  return location == kHostLocation ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
}

}  // namespace

CUresult mem_prefetch_async(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream) {
  int location = kNoLocation;
  SPILLWAY_RETURN_IF_FAILED(location_of(location_of(device), location));
  return prefetch(pointer, bytes, location, stream);
}

CUresult mem_prefetch_async(CUdeviceptr pointer, size_t bytes, CUmemLocation where, unsigned int flags,
                            CUstream stream) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  int location = kNoLocation;
  SPILLWAY_RETURN_IF_FAILED(location_of(where, location));
  return prefetch(pointer, bytes, location, stream);
}

CUresult mem_advise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device) {
  return advise(pointer, bytes, advice, location_of(device));
}

CUresult mem_advise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location) {
  return advise(pointer, bytes, advice, location);
}

CUresult mem_prefetch_batch_async(CUdeviceptr* pointers, size_t* sizes, size_t count, CUmemLocation* locations,
                                  size_t* indices, size_t location_count, unsigned long long flags, CUstream stream) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return prefetch_batch(pointers, sizes, count, locations, indices, location_count, stream);
}

CUresult mem_discard_batch_async(CUdeviceptr* pointers, size_t* sizes, size_t count, unsigned long long flags,
                                 CUstream handle) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  if (pointers == nullptr || sizes == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    Allocation* allocation = nullptr;
    SPILLWAY_RETURN_IF_FAILED(find_managed(pointers[i], sizes[i], allocation));
    Operation operation;
    operation.run = [pointer = pointers[i], bytes = sizes[i]](std::int64_t start) {
      Allocation* still = world().memory.containing(pointer);
      if (still != nullptr && still->kind == MemoryKind::managed) discard_managed(*still, pointer, bytes);
      return start;
    };
    enqueue(stream, std::move(operation));
  }
  return CUDA_SUCCESS;
}

CUresult mem_discard_and_prefetch_batch_async(CUdeviceptr* pointers, size_t* sizes, size_t count,
                                              CUmemLocation* locations, size_t* indices, size_t location_count,
                                              unsigned long long flags, CUstream stream) {
  SPILLWAY_RETURN_IF_FAILED(mem_discard_batch_async(pointers, sizes, count, flags, stream));
  return prefetch_batch(pointers, sizes, count, locations, indices, location_count, stream);
}

CUresult mem_range_get_attribute(void* data, size_t data_bytes, CUmem_range_attribute attribute, CUdeviceptr pointer,
                                 size_t bytes) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Allocation* allocation = nullptr;
  SPILLWAY_RETURN_IF_FAILED(find_managed(pointer, bytes, allocation));
  if (data == nullptr || data_bytes < sizeof(int) || data_bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto* out = static_cast<int*>(data);
  const auto preferred = [&] {
    return common(
        *allocation, pointer, bytes, [](const Chunk& c) { return c.preferred; }, kNoLocation);
  };
  const auto last = [&] {
    return common(
        *allocation, pointer, bytes, [](const Chunk& c) { return c.last_prefetch; }, kNoLocation);
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *out = common(
          *allocation, pointer, bytes, [](const Chunk& c) { return c.read_mostly ? 1 : 0; }, 0);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      *out = preferred();
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *out = last();
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      *out = preferred_type(preferred());
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      *out = preferred_type(last());
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      *out = std::max(preferred(), 0);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      *out = std::max(last(), 0);
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      accessed_by(*allocation, pointer, bytes, out, data_bytes / sizeof(int));
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult mem_range_get_attributes(void** data, size_t* data_bytes, CUmem_range_attribute* attributes, size_t count,
                                  CUdeviceptr pointer, size_t bytes) {
  if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    SPILLWAY_RETURN_IF_FAILED(mem_range_get_attribute(data[i], data_bytes[i], attributes[i], pointer, bytes));
  }
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated::driver
