// Arrays: opaque layouts, counted and passed on.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult create_array(RealCall<PFN_cuArrayCreate_v3020>& real, CUarray* p_handle,
                      const CUDA_ARRAY_DESCRIPTOR_v2* p_allocate_array) {
  return real(p_handle, p_allocate_array);
}

CUresult create_array(RealCall<PFN_cuArray3DCreate_v3020>& real, CUarray* p_handle,
                      const CUDA_ARRAY3D_DESCRIPTOR_v2* p_allocate_array) {
  return real(p_handle, p_allocate_array);
}

CUresult destroy_array(RealCall<PFN_cuArrayDestroy_v2000>& real, CUarray h_array) { return real(h_array); }

CUresult create_mipmapped_array(RealCall<PFN_cuMipmappedArrayCreate_v5000>& real, CUmipmappedArray* p_handle,
                                const CUDA_ARRAY3D_DESCRIPTOR_v2* p_mipmapped_array_desc,
                                unsigned int num_mipmap_levels) {
  return real(p_handle, p_mipmapped_array_desc, num_mipmap_levels);
}

CUresult destroy_mipmapped_array(RealCall<PFN_cuMipmappedArrayDestroy_v5000>& real,
                                 CUmipmappedArray h_mipmapped_array) {
  return real(h_mipmapped_array);
}

}  // namespace spillway::shim::handlers
