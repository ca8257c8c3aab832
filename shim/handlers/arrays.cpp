// Arrays: opaque layouts, counted by what their descriptor says and passed on.
#include <algorithm>

#include "shim/handlers.hpp"
#include "shim/handlers/allocation.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/physical_memory.hpp"

namespace spillway::shim::handlers {
namespace {

std::size_t bytes_of_format(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 2;
  }
}

std::size_t bytes_of(std::size_t width, std::size_t height, std::size_t depth, CUarray_format format,
                     unsigned channels) {
  return std::max<std::size_t>(width, 1) * std::max<std::size_t>(height, 1) * std::max<std::size_t>(depth, 1) *
         bytes_of_format(format) * std::max(channels, 1U);
}

// Descriptors that the driver refuses at any size, as far as its documentation says so; of formats that came later we
// know nothing and say nothing.
CUresult objection_to(std::size_t width, CUarray_format format, unsigned channels) {
  const auto number = static_cast<unsigned>(format);
  constexpr unsigned kLastOfFirst = CU_AD_FORMAT_FLOAT;
  const bool first_formats = number <= kLastOfFirst;
  const bool known = number == CU_AD_FORMAT_UNSIGNED_INT8 || number == CU_AD_FORMAT_UNSIGNED_INT16 ||
                     number == CU_AD_FORMAT_UNSIGNED_INT32 || number == CU_AD_FORMAT_SIGNED_INT8 ||
                     number == CU_AD_FORMAT_SIGNED_INT16 || number == CU_AD_FORMAT_SIGNED_INT32 ||
                     number == CU_AD_FORMAT_HALF || number == CU_AD_FORMAT_FLOAT;
  if (width == 0 || (first_formats && !known)) return CUDA_ERROR_INVALID_VALUE;
  if (known && channels != 1 && channels != 2 && channels != 4) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

template <class Handle, class Descriptor>
CUresult create(const void* caller, Handle* out, const Descriptor& array, std::size_t bytes,
                const std::function<CUresult()>& call) {
  Session* session = Session::get();
  const auto device = session == nullptr ? std::nullopt : current_device();
  if (!device || out == nullptr) return call();
  AllocationRequest request;
  request.device = *device;
  request.bytes = policy::Bytes(bytes);
  request.kind = policy::AllocationKind::array;
  request.caller = caller;
  AllocationCalls calls;
  calls.plain = [&] {
    const CUresult result = call();
    const auto handle = result == CUDA_SUCCESS ? reinterpret_cast<std::uint64_t>(*out) : 0;
    return DriverMemory{result, address_of_handle(handle), policy::Bytes(bytes)};
  };
  calls.objection = [&] { return objection_to(array.Width, array.Format, array.NumChannels); };
  return allocate(*session, request, calls);
}

template <class Handle>
CUresult destroy(Handle handle, const std::function<CUresult()>& call) {
  Session* session = Session::get();
  const policy::Address address = address_of_handle(reinterpret_cast<std::uint64_t>(handle));
  const auto known = session == nullptr ? std::nullopt : session->begin_free(address, 0);
  const CUresult result = call();
  if (known) session->end_free(*known, result);
  return result;
}

}  // namespace

CUresult create_array(RealCall<PFN_cuArrayCreate_v3020>& real, CUarray* p_handle,
                      const CUDA_ARRAY_DESCRIPTOR_v2* p_allocate_array) {
  if (p_allocate_array == nullptr) return real(p_handle, p_allocate_array);
  const auto& array = *p_allocate_array;
  const std::size_t bytes = bytes_of(array.Width, array.Height, 1, array.Format, array.NumChannels);
  return real.answer(create(real.caller(), p_handle, array, bytes, [&] { return real(p_handle, p_allocate_array); }));
}

CUresult create_array(RealCall<PFN_cuArray3DCreate_v3020>& real, CUarray* p_handle,
                      const CUDA_ARRAY3D_DESCRIPTOR_v2* p_allocate_array) {
  if (p_allocate_array == nullptr) return real(p_handle, p_allocate_array);
  const auto& array = *p_allocate_array;
  const std::size_t bytes = bytes_of(array.Width, array.Height, array.Depth, array.Format, array.NumChannels);
  return real.answer(create(real.caller(), p_handle, array, bytes, [&] { return real(p_handle, p_allocate_array); }));
}

CUresult destroy_array(RealCall<PFN_cuArrayDestroy_v2000>& real, CUarray h_array) {
  return real.answer(destroy(h_array, [&] { return real(h_array); }));
}

CUresult create_mipmapped_array(RealCall<PFN_cuMipmappedArrayCreate_v5000>& real, CUmipmappedArray* p_handle,
                                const CUDA_ARRAY3D_DESCRIPTOR_v2* p_mipmapped_array_desc,
                                unsigned int num_mipmap_levels) {
  if (p_mipmapped_array_desc == nullptr) return real(p_handle, p_mipmapped_array_desc, num_mipmap_levels);
  const auto& array = *p_mipmapped_array_desc;
  // Each level is a quarter of the one before: all of them are at most four thirds of the first.
  const std::size_t bytes = bytes_of(array.Width, array.Height, array.Depth, array.Format, array.NumChannels) * 4 / 3;
  return real.answer(create(real.caller(), p_handle, array, bytes,
                            [&] { return real(p_handle, p_mipmapped_array_desc, num_mipmap_levels); }));
}

CUresult destroy_mipmapped_array(RealCall<PFN_cuMipmappedArrayDestroy_v5000>& real,
                                 CUmipmappedArray h_mipmapped_array) {
  return real.answer(destroy(h_mipmapped_array, [&] { return real(h_mipmapped_array); }));
}

}  // namespace spillway::shim::handlers
