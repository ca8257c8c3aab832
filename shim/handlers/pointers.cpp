// What a pointer is, as the program sees it.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult pointer_attribute(RealCall<PFN_cuPointerGetAttribute_v4000>& real, void* data, CUpointer_attribute attribute,
                           CUdeviceptr_v2 ptr) {
  return real(data, attribute, ptr);
}

CUresult pointer_attributes(RealCall<PFN_cuPointerGetAttributes_v7000>& real, unsigned int num_attributes,
                            CUpointer_attribute* attributes, void** data, CUdeviceptr_v2 ptr) {
  return real(num_attributes, attributes, data, ptr);
}

CUresult address_range(RealCall<PFN_cuMemGetAddressRange_v3020>& real, CUdeviceptr_v2* pbase, size_t* psize,
                       CUdeviceptr_v2 dptr) {
  return real(pbase, psize, dptr);
}

CUresult range_attribute(RealCall<PFN_cuMemRangeGetAttribute_v8000>& real, void* data, size_t data_size,
                         CUmem_range_attribute attribute, CUdeviceptr_v2 dev_ptr, size_t count) {
  return real(data, data_size, attribute, dev_ptr, count);
}

CUresult range_attributes(RealCall<PFN_cuMemRangeGetAttributes_v8000>& real, void** data, size_t* data_sizes,
                          CUmem_range_attribute* attributes, size_t num_attributes, CUdeviceptr_v2 dev_ptr,
                          size_t count) {
  return real(data, data_sizes, attributes, num_attributes, dev_ptr, count);
}

}  // namespace spillway::shim::handlers
