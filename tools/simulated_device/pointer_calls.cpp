// Questions about pointers, one by one and batched. Both are answered by the same function, so that they agree.
#include <cstring>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

bool is_host(const Allocation& allocation) {
  return allocation.kind == MemoryKind::pinned || allocation.kind == MemoryKind::registered;
}

template <class Value>
CUresult give(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult answer(void* data, CUpointer_attribute attribute, CUdeviceptr pointer, const Allocation& allocation) {
  const bool managed = allocation.kind == MemoryKind::managed;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, handle_of(allocation.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, is_host(allocation) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_host(allocation) && !managed) return CUDA_ERROR_INVALID_VALUE;
      return give(data, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(data, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(data, static_cast<unsigned long long>(allocation.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(data, managed ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(data, allocation.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(data, allocation.kind == MemoryKind::device && allocation.charged != 0 ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(data, static_cast<CUdeviceptr>(allocation.address));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(data, static_cast<std::size_t>(allocation.bytes));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(data, 1U);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(data, std::uint64_t{0});
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(data, allocation.pool);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// Bytes the answer takes, for the batched form's "unknown" (zeroes).
std::size_t answer_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return 4;
    default:
      return 8;
  }
}

}  // namespace

CUresult pointer_get_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Allocation* allocation = world().memory.containing(pointer);
  return allocation == nullptr ? CUDA_ERROR_INVALID_VALUE : answer(data, attribute, pointer, *allocation);
}

CUresult pointer_get_attributes(unsigned int count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Allocation* allocation = world().memory.containing(pointer);
  for (unsigned i = 0; i < count; ++i) {
    // As the real call: what does not apply is zero, and the call succeeds.
    if (allocation != nullptr && answer(data[i], attributes[i], pointer, *allocation) == CUDA_SUCCESS) continue;
    std::memset(data[i], 0, answer_bytes(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) give(data[i], -2);
  }
  return CUDA_SUCCESS;
}

CUresult pointer_set_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (value == nullptr || world().memory.containing(pointer) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace spillway::simulated::driver
