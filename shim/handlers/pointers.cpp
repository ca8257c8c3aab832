// What a pointer is, as the program sees it: it asked for device memory, so spilled memory answers as device memory, in
// single questions and in batches alike. Frameworks exchange tensors by these answers.
#include <optional>

#include "shim/handlers.hpp"
#include "shim/handlers/spilled_memory.hpp"
#include "shim/managed_pools.hpp"
#include "shim/physical_memory.hpp"

namespace spillway::shim::handlers {
namespace {

// What the program asked for as device memory, and is not: spilled, or host memory under a map-style handle.
std::optional<Registered> asked_as_device(CUdeviceptr_v2 address) {
  if (Session::get() == nullptr) return std::nullopt;
  const auto asked = physical_memory().asked_at(address);
  if (!asked) return spilled_at(address);
  Registered mapped;
  mapped.device = {static_cast<std::uint32_t>(asked->location.id)};
  return mapped;
}

// In an arena of ours, where the program has no memory (any more): to it that is an address like any other, of which
// the driver knows nothing.
CUdeviceptr_v2 as_known(CUdeviceptr_v2 pointer) {
  const bool stale =
      Session::get() != nullptr && managed_pools().holds({pointer}) && !managed_pools().block_at({pointer});
  return stale ? 0 : pointer;
}

// Puts the answer for device memory in place of the one for managed memory, where they differ. False: the attribute
// does not exist for device memory.
bool answer_as_device(CUpointer_attribute attribute, CUdeviceptr_v2 pointer, const Registered& memory, void* data) {
  const auto pooled = managed_pools().block_at({pointer});
  switch (attribute) {
    // The driver knows of the arena, the program of its own block.
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      if (pooled) *static_cast<CUdeviceptr*>(data) = pooled->address.value;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      if (pooled) *static_cast<std::size_t*>(data) = pooled->bytes.count();
      return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      if (pooled) *static_cast<CUmemoryPool*>(data) = pooled->pool;
      return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = 0;
      return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(data) = CU_MEMORYTYPE_DEVICE;
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = static_cast<int>(memory.device.value);
      return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<void**>(data) = nullptr;
      return false;
    default:
      return true;
  }
}

}  // namespace

CUresult pointer_attribute(RealCall<PFN_cuPointerGetAttribute_v4000>& real, void* data, CUpointer_attribute attribute,
                           CUdeviceptr_v2 ptr) {
  ptr = as_known(ptr);
  const CUresult result = real(data, attribute, ptr);
  if (result != CUDA_SUCCESS || data == nullptr) return result;
  const auto memory = asked_as_device(ptr);
  if (!memory) return result;
  // The driver's code for an attribute that device memory has not; data was written, as the driver's contract leaves
  // open.
  return answer_as_device(attribute, ptr, *memory, data) ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult pointer_attributes(RealCall<PFN_cuPointerGetAttributes_v7000>& real, unsigned int num_attributes,
                            CUpointer_attribute* attributes, void** data, CUdeviceptr_v2 ptr) {
  ptr = as_known(ptr);
  const CUresult result = real(num_attributes, attributes, data, ptr);
  if (result != CUDA_SUCCESS || attributes == nullptr || data == nullptr) return result;
  const auto memory = asked_as_device(ptr);
  if (!memory) return result;
  // In a batch the driver leaves zero for what does not apply, and succeeds.
  for (unsigned index = 0; index < num_attributes; ++index) {
    if (data[index] != nullptr) answer_as_device(attributes[index], ptr, *memory, data[index]);
  }
  return result;
}

CUresult address_range(RealCall<PFN_cuMemGetAddressRange_v3020>& real, CUdeviceptr_v2* pbase, size_t* psize,
                       CUdeviceptr_v2 dptr) {
  dptr = as_known(dptr);
  const CUresult result = real(pbase, psize, dptr);
  if (result != CUDA_SUCCESS || Session::get() == nullptr) return result;
  if (const auto pooled = managed_pools().block_at({dptr})) {
    if (pbase != nullptr) *pbase = pooled->address.value;
    if (psize != nullptr) *psize = pooled->bytes.count();
  }
  return result;
}

CUresult range_attribute(RealCall<PFN_cuMemRangeGetAttribute_v8000>& real, void* data, size_t data_size,
                         CUmem_range_attribute attribute, CUdeviceptr_v2 dev_ptr, size_t count) {
  return real.answer(
      for_managed_memory_only(dev_ptr, [&](CUdeviceptr at) { return real(data, data_size, attribute, at, count); }));
}

CUresult range_attributes(RealCall<PFN_cuMemRangeGetAttributes_v8000>& real, void** data, size_t* data_sizes,
                          CUmem_range_attribute* attributes, size_t num_attributes, CUdeviceptr_v2 dev_ptr,
                          size_t count) {
  return real.answer(for_managed_memory_only(
      dev_ptr, [&](CUdeviceptr at) { return real(data, data_sizes, attributes, num_attributes, at, count); }));
}

}  // namespace spillway::shim::handlers
