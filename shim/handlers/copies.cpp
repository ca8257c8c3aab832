// Copies of all kinds: one record each, with both ends and the bytes from the first to the last one touched. Arrays
// have no addresses: their side is 0.
#include "policy/event.hpp"
#include "shim/handlers.hpp"
#include "shim/recorder.hpp"

namespace spillway::shim::handlers {

namespace {

using policy::CopyKind;

struct Where {
  CUstream stream = nullptr;
  bool per_thread = false;
};

std::uint64_t address_of(const void* host) { return reinterpret_cast<std::uintptr_t>(host); }

// What a copy moves: both ends and the bytes from the first to the last one touched.
struct Extent {
  CopyKind kind = CopyKind::unknown;
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
};

template <class Forward>
CUresult copy(const Extent& extent, Where where, const Forward& forward) {
  if (extent.bytes == 0) return forward();
  CopyRecord record{{}, extent.destination, extent.source, extent.bytes};
  record.header.detail = static_cast<std::uint32_t>(extent.kind);
  return record_call(record, RecordKind::copy, where.stream, where.per_thread, forward);
}

// One end of a 2D or 3D copy; pitch x height is a slice.
struct End {
  CUmemorytype type{};
  std::uint64_t address = 0;
};

End end_of(CUmemorytype type, const void* host, CUdeviceptr device, std::uint64_t offset) {
  if (type == CU_MEMORYTYPE_HOST) return {type, address_of(host) + offset};
  if (type == CU_MEMORYTYPE_ARRAY) return {type, 0};
  return {type, device + offset};
}

CopyKind kind_of(End destination, End source) {
  const bool known = destination.type != CU_MEMORYTYPE_UNIFIED && source.type != CU_MEMORYTYPE_UNIFIED;
  const bool to_host = destination.type == CU_MEMORYTYPE_HOST;
  const bool from_host = source.type == CU_MEMORYTYPE_HOST;
  if (!known || (to_host && from_host)) return CopyKind::unknown;
  if (to_host) return CopyKind::device_to_host;
  return from_host ? CopyKind::host_to_device : CopyKind::device_to_device;
}

Extent extent_2d(const CUDA_MEMCPY2D_v2* copy) {
  if (copy == nullptr || copy->Height == 0) return {};
  const End source =
      end_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcY * copy->srcPitch + copy->srcXInBytes);
  const End destination =
      end_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstY * copy->dstPitch + copy->dstXInBytes);
  const std::size_t pitch = destination.address != 0 ? copy->dstPitch : copy->srcPitch;
  return {kind_of(destination, source), destination.address, source.address,
          (copy->Height - 1) * pitch + copy->WidthInBytes};
}

// CUDA_MEMCPY3D and its peer form share these fields.
template <class Copy>
Extent extent_3d(const Copy* copy) {
  if (copy == nullptr || copy->Height == 0 || copy->Depth == 0) return {};
  const std::uint64_t source_row = copy->srcZ * copy->srcHeight + copy->srcY;
  const std::uint64_t destination_row = copy->dstZ * copy->dstHeight + copy->dstY;
  const End source =
      end_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, source_row * copy->srcPitch + copy->srcXInBytes);
  const End destination =
      end_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, destination_row * copy->dstPitch + copy->dstXInBytes);
  const bool by_destination = destination.address != 0;
  const std::size_t pitch = by_destination ? copy->dstPitch : copy->srcPitch;
  const std::size_t height = by_destination ? copy->dstHeight : copy->srcHeight;
  const std::uint64_t rows = (copy->Depth - 1) * height + copy->Height - 1;
  return {kind_of(destination, source), destination.address, source.address, rows * pitch + copy->WidthInBytes};
}

}  // namespace

CUresult copy_unified(RealCall<PFN_cuMemcpy_v4000>& real, CUdeviceptr destination, CUdeviceptr source,
                      std::size_t bytes) {
  return copy({CopyKind::unknown, destination, source, bytes}, {nullptr, real.per_thread()},
              [&] { return real(destination, source, bytes); });
}

CUresult copy_unified(RealCall<PFN_cuMemcpyAsync_v4000>& real, CUdeviceptr destination, CUdeviceptr source,
                      std::size_t bytes, CUstream stream) {
  return copy({CopyKind::unknown, destination, source, bytes}, {stream, real.per_thread()},
              [&] { return real(destination, source, bytes, stream); });
}

CUresult copy_peer(RealCall<PFN_cuMemcpyPeer_v4000>& real, CUdeviceptr destination, CUcontext destination_context,
                   CUdeviceptr source, CUcontext source_context, std::size_t bytes) {
  return copy({CopyKind::device_to_device, destination, source, bytes}, {nullptr, real.per_thread()},
              [&] { return real(destination, destination_context, source, source_context, bytes); });
}

CUresult copy_peer(RealCall<PFN_cuMemcpyPeerAsync_v4000>& real, CUdeviceptr destination, CUcontext destination_context,
                   CUdeviceptr source, CUcontext source_context, std::size_t bytes, CUstream stream) {
  return copy({CopyKind::device_to_device, destination, source, bytes}, {stream, real.per_thread()},
              [&] { return real(destination, destination_context, source, source_context, bytes, stream); });
}

CUresult copy_host_to_device(RealCall<PFN_cuMemcpyHtoD_v3020>& real, CUdeviceptr destination, const void* source,
                             std::size_t bytes) {
  return copy({CopyKind::host_to_device, destination, address_of(source), bytes}, {nullptr, real.per_thread()},
              [&] { return real(destination, source, bytes); });
}

CUresult copy_host_to_device(RealCall<PFN_cuMemcpyHtoDAsync_v3020>& real, CUdeviceptr destination, const void* source,
                             std::size_t bytes, CUstream stream) {
  return copy({CopyKind::host_to_device, destination, address_of(source), bytes}, {stream, real.per_thread()},
              [&] { return real(destination, source, bytes, stream); });
}

CUresult copy_device_to_host(RealCall<PFN_cuMemcpyDtoH_v3020>& real, void* destination, CUdeviceptr source,
                             std::size_t bytes) {
  return copy({CopyKind::device_to_host, address_of(destination), source, bytes}, {nullptr, real.per_thread()},
              [&] { return real(destination, source, bytes); });
}

CUresult copy_device_to_host(RealCall<PFN_cuMemcpyDtoHAsync_v3020>& real, void* destination, CUdeviceptr source,
                             std::size_t bytes, CUstream stream) {
  return copy({CopyKind::device_to_host, address_of(destination), source, bytes}, {stream, real.per_thread()},
              [&] { return real(destination, source, bytes, stream); });
}

CUresult copy_device_to_device(RealCall<PFN_cuMemcpyDtoD_v3020>& real, CUdeviceptr destination, CUdeviceptr source,
                               std::size_t bytes) {
  return copy({CopyKind::device_to_device, destination, source, bytes}, {nullptr, real.per_thread()},
              [&] { return real(destination, source, bytes); });
}

CUresult copy_device_to_device(RealCall<PFN_cuMemcpyDtoDAsync_v3020>& real, CUdeviceptr destination, CUdeviceptr source,
                               std::size_t bytes, CUstream stream) {
  return copy({CopyKind::device_to_device, destination, source, bytes}, {stream, real.per_thread()},
              [&] { return real(destination, source, bytes, stream); });
}

CUresult copy_device_to_array(RealCall<PFN_cuMemcpyDtoA_v3020>& real, CUarray destination, std::size_t offset,
                              CUdeviceptr source, std::size_t bytes) {
  return copy({CopyKind::device_to_device, 0, source, bytes}, {nullptr, real.per_thread()},
              [&] { return real(destination, offset, source, bytes); });
}

CUresult copy_array_to_device(RealCall<PFN_cuMemcpyAtoD_v3020>& real, CUdeviceptr destination, CUarray source,
                              std::size_t offset, std::size_t bytes) {
  return copy({CopyKind::device_to_device, destination, 0, bytes}, {nullptr, real.per_thread()},
              [&] { return real(destination, source, offset, bytes); });
}

CUresult copy_2d(RealCall<PFN_cuMemcpy2D_v3020>& real, const CUDA_MEMCPY2D_v2* parameters) {
  return copy(extent_2d(parameters), {nullptr, real.per_thread()}, [&] { return real(parameters); });
}

CUresult copy_2d(RealCall<PFN_cuMemcpy2DAsync_v3020>& real, const CUDA_MEMCPY2D_v2* parameters, CUstream stream) {
  return copy(extent_2d(parameters), {stream, real.per_thread()}, [&] { return real(parameters, stream); });
}

CUresult copy_3d(RealCall<PFN_cuMemcpy3D_v3020>& real, const CUDA_MEMCPY3D_v2* parameters) {
  return copy(extent_3d(parameters), {nullptr, real.per_thread()}, [&] { return real(parameters); });
}

CUresult copy_3d(RealCall<PFN_cuMemcpy3DAsync_v3020>& real, const CUDA_MEMCPY3D_v2* parameters, CUstream stream) {
  return copy(extent_3d(parameters), {stream, real.per_thread()}, [&] { return real(parameters, stream); });
}

CUresult copy_3d_peer(RealCall<PFN_cuMemcpy3DPeer_v4000>& real, const CUDA_MEMCPY3D_PEER_v1* parameters) {
  return copy(extent_3d(parameters), {nullptr, real.per_thread()}, [&] { return real(parameters); });
}

CUresult copy_3d_peer(RealCall<PFN_cuMemcpy3DPeerAsync_v4000>& real, const CUDA_MEMCPY3D_PEER_v1* parameters,
                      CUstream stream) {
  return copy(extent_3d(parameters), {stream, real.per_thread()}, [&] { return real(parameters, stream); });
}

namespace {

// One call, several copies: each becomes a record once the call was accepted.
void copied_batch(CUresult result, const CUdeviceptr* destinations, const CUdeviceptr* sources,
                  const std::size_t* sizes, std::size_t count, Where where) {
  if (result != CUDA_SUCCESS || destinations == nullptr || sources == nullptr || sizes == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    copy({CopyKind::unknown, destinations[i], sources[i], sizes[i]}, where, [] { return CUDA_SUCCESS; });
  }
}

}  // namespace

CUresult copy_batch(RealCall<PFN_cuMemcpyBatchAsync_v12080>& real, CUdeviceptr* destinations, CUdeviceptr* sources,
                    std::size_t* sizes, std::size_t count, CUmemcpyAttributes_v1* attributes,
                    std::size_t* attribute_indexes, std::size_t attribute_count, std::size_t* failed, CUstream stream) {
  const CUresult result =
      real(destinations, sources, sizes, count, attributes, attribute_indexes, attribute_count, failed, stream);
  copied_batch(result, destinations, sources, sizes, count, {stream, real.per_thread()});
  return result;
}

CUresult copy_batch(RealCall<PFN_cuMemcpyBatchAsync_v13000>& real, CUdeviceptr* destinations, CUdeviceptr* sources,
                    std::size_t* sizes, std::size_t count, CUmemcpyAttributes_v1* attributes,
                    std::size_t* attribute_indexes, std::size_t attribute_count, CUstream stream) {
  const CUresult result =
      real(destinations, sources, sizes, count, attributes, attribute_indexes, attribute_count, stream);
  copied_batch(result, destinations, sources, sizes, count, {stream, real.per_thread()});
  return result;
}

}  // namespace spillway::shim::handlers
