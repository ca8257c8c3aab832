// What a pointer is, as the program sees it: it asked for device memory, so spilled memory answers as device memory, in
// single questions and in batches alike. Frameworks exchange tensors by these answers.
#include <optional>

#include "shim/handlers.hpp"
#include "shim/handlers/spilled_memory.hpp"

namespace spillway::shim::handlers {
namespace {

// Puts the answer for device memory in place of the one for managed memory, where they differ. False: the attribute
// does not exist for device memory.
bool answer_as_device(CUpointer_attribute attribute, const Registered& memory, void* data) {
  switch (attribute) {
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
  const CUresult result = real(data, attribute, ptr);
  if (result != CUDA_SUCCESS || data == nullptr) return result;
  const auto memory = spilled_at(ptr);
  if (!memory) return result;
  // The driver's code for an attribute that device memory has not; data was written, as the driver's contract leaves
  // open.
  return answer_as_device(attribute, *memory, data) ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult pointer_attributes(RealCall<PFN_cuPointerGetAttributes_v7000>& real, unsigned int num_attributes,
                            CUpointer_attribute* attributes, void** data, CUdeviceptr_v2 ptr) {
  const CUresult result = real(num_attributes, attributes, data, ptr);
  if (result != CUDA_SUCCESS || attributes == nullptr || data == nullptr) return result;
  const auto memory = spilled_at(ptr);
  if (!memory) return result;
  // In a batch the driver leaves zero for what does not apply, and succeeds.
  for (unsigned index = 0; index < num_attributes; ++index) {
    if (data[index] != nullptr) answer_as_device(attributes[index], *memory, data[index]);
  }
  return result;
}

CUresult address_range(RealCall<PFN_cuMemGetAddressRange_v3020>& real, CUdeviceptr_v2* pbase, size_t* psize,
                       CUdeviceptr_v2 dptr) {
  return real(pbase, psize, dptr);
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
