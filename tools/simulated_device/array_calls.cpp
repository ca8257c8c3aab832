// Arrays: opaque memory, kept as plain rows. Their row pitch is kept in the allocation's flags. The descriptor is kept
// beside it. Mipmaps and external memory are not simulated and say so.
#include <algorithm>
#include <unordered_map>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

std::unordered_map<CUarray, CUDA_ARRAY3D_DESCRIPTOR>& descriptors() {
  static auto* const all = new std::unordered_map<CUarray, CUDA_ARRAY3D_DESCRIPTOR>;  // world's lock
  return *all;
}

std::size_t element_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

CUresult array_3d_create(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  if (handle == nullptr || d == nullptr || d->Width == 0 || element_bytes(d->Format) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t pitch = d->Width * d->NumChannels * element_bytes(d->Format);
  const std::size_t bytes = pitch * std::max<std::size_t>(d->Height, 1) * std::max<std::size_t>(d->Depth, 1);
  Allocation* made = nullptr;
  SPILLWAY_RETURN_IF_FAILED(
      world().memory.allocate(MemoryKind::array, bytes, *context, static_cast<unsigned>(pitch), made));
  *handle = reinterpret_cast<CUarray>(made->address);
  descriptors()[*handle] = *d;
  return CUDA_SUCCESS;
}

CUresult array_create(CUarray* handle, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR wide{d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
  return array_3d_create(handle, &wide);
}

CUresult array_destroy(CUarray handle) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  const auto address = reinterpret_cast<std::uint64_t>(handle);
  const Allocation* allocation = world().memory.exact(address);
  if (allocation == nullptr || allocation->kind != MemoryKind::array) return CUDA_ERROR_INVALID_HANDLE;
  wait_for_device(allocation->device);
  descriptors().erase(handle);
  world().memory.release(address);
  return CUDA_SUCCESS;
}

CUresult array_3d_get_descriptor(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray handle) {
  const auto found = descriptors().find(handle);
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == descriptors().end()) return CUDA_ERROR_INVALID_HANDLE;
  *descriptor = found->second;
  return CUDA_SUCCESS;
}

CUresult array_get_descriptor(CUDA_ARRAY_DESCRIPTOR* descriptor, CUarray handle) {
  CUDA_ARRAY3D_DESCRIPTOR wide{};
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SPILLWAY_RETURN_IF_FAILED(array_3d_get_descriptor(&wide, handle));
  *descriptor = {wide.Width, wide.Height, wide.Format, wide.NumChannels};
  return CUDA_SUCCESS;
}

CUresult mipmapped_array_create(CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned int) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult mipmapped_array_destroy(CUmipmappedArray) { return CUDA_ERROR_INVALID_HANDLE; }
CUresult import_external_memory(CUexternalMemory*, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult external_memory_get_mapped_buffer(CUdeviceptr*, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*) {
  return CUDA_ERROR_INVALID_HANDLE;
}
CUresult destroy_external_memory(CUexternalMemory) { return CUDA_ERROR_INVALID_HANDLE; }

}  // namespace spillway::simulated::driver
