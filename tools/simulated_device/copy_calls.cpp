// cuMemcpy* and cuMemset*: everything becomes a Copy or a Fill, is checked, then captured or enqueued.
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

enum class Waits { for_the_result, no };

CUresult submit(Copy copy, CUstream handle, Waits waits) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  if (waits == Waits::for_the_result) SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  copy.device = stream->context->device;
  SPILLWAY_RETURN_IF_FAILED(check(copy));
  if (stream->capture) return capture_node(*stream, CopyNode{to_parameters(copy), copy});
  const bool pageable = touches_pageable(copy);
  if (pageable) wait_for(stream);  // pageable memory is staged during the call
  enqueue_body(stream, CopyNode{{}, copy});
  if (pageable || waits == Waits::for_the_result) wait_for(stream);
  return world().sticky;
}

CUresult submit(Fill fill, CUstream handle, Waits waits) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  if (waits == Waits::for_the_result) SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  fill.device = stream->context->device;
  SPILLWAY_RETURN_IF_FAILED(check(fill));
  if (stream->capture) {
    CUDA_MEMSET_NODE_PARAMS parameters{fill.destination, fill.pitch, fill.value, fill.element, fill.width, fill.height};
    return capture_node(*stream, FillNode{parameters, fill});
  }
  enqueue_body(stream, FillNode{{}, fill});
  if (waits == Waits::for_the_result) wait_for(stream);
  return world().sticky;
}

Copy linear(std::uint64_t destination, std::uint64_t source, std::size_t bytes) {
  Copy copy;
  copy.destination = destination;
  copy.source = source;
  copy.width = copy.destination_pitch = copy.source_pitch = bytes;
  return copy;
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

Fill fill_of(std::uint64_t destination, unsigned value, unsigned element, std::size_t width, std::size_t height,
             std::size_t pitch) {
  return Fill{destination, value, element, width, height, pitch, 0};
}

bool is_device(std::uint64_t address) { return world().memory.containing(address) != nullptr; }

CUresult submit_3d(const CUDA_MEMCPY3D* parameters, CUstream stream, Waits waits) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Copy copy;
  SPILLWAY_RETURN_IF_FAILED(from_parameters(*parameters, 0, copy));
  return submit(copy, stream, waits);
}

CUresult submit_2d(const CUDA_MEMCPY2D* p, CUstream stream, Waits waits) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D wide{};
  wide.srcXInBytes = p->srcXInBytes;
  wide.srcY = p->srcY;
  wide.srcMemoryType = p->srcMemoryType;
  wide.srcHost = p->srcHost;
  wide.srcDevice = p->srcDevice;
  wide.srcArray = p->srcArray;
  wide.srcPitch = p->srcPitch;
  wide.dstXInBytes = p->dstXInBytes;
  wide.dstY = p->dstY;
  wide.dstMemoryType = p->dstMemoryType;
  wide.dstHost = p->dstHost;
  wide.dstDevice = p->dstDevice;
  wide.dstArray = p->dstArray;
  wide.dstPitch = p->dstPitch;
  wide.WidthInBytes = p->WidthInBytes;
  wide.Height = p->Height;
  wide.Depth = 1;
  return submit_3d(&wide, stream, waits);
}

CUresult submit_peer(const CUDA_MEMCPY3D_PEER* p, CUstream stream, Waits waits) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D same{};
  same.srcXInBytes = p->srcXInBytes;
  same.srcY = p->srcY;
  same.srcZ = p->srcZ;
  same.srcMemoryType = p->srcMemoryType;
  same.srcHost = p->srcHost;
  same.srcDevice = p->srcDevice;
  same.srcArray = p->srcArray;
  same.srcPitch = p->srcPitch;
  same.srcHeight = p->srcHeight;
  same.dstXInBytes = p->dstXInBytes;
  same.dstY = p->dstY;
  same.dstZ = p->dstZ;
  same.dstMemoryType = p->dstMemoryType;
  same.dstHost = p->dstHost;
  same.dstDevice = p->dstDevice;
  same.dstArray = p->dstArray;
  same.dstPitch = p->dstPitch;
  same.dstHeight = p->dstHeight;
  same.WidthInBytes = p->WidthInBytes;
  same.Height = p->Height;
  same.Depth = p->Depth;
  return submit_3d(&same, stream, waits);
}

// Copies between an array and linear memory, as bytes from the array's start.
CUresult submit_array(std::uint64_t destination, std::uint64_t source, CUarray array, std::size_t offset,
                      std::size_t bytes, CUstream stream, Waits waits) {
  const Allocation* allocation = world().memory.exact(address_of(array));
  if (allocation == nullptr || allocation->kind != MemoryKind::array) return CUDA_ERROR_INVALID_HANDLE;
  if (destination == 0) return submit(linear(allocation->address + offset, source, bytes), stream, waits);
  return submit(linear(destination, allocation->address + offset, bytes), stream, waits);
}

}  // namespace

CUresult memcpy_unified(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return submit(linear(destination, source, bytes), nullptr, Waits::for_the_result);
}
CUresult memcpy_async(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return submit(linear(destination, source, bytes), stream, Waits::no);
}
CUresult memcpy_peer(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext, size_t bytes) {
  return submit(linear(destination, source, bytes), nullptr, Waits::for_the_result);
}
CUresult memcpy_peer_async(CUdeviceptr destination, CUcontext, CUdeviceptr source, CUcontext, size_t bytes,
                           CUstream stream) {
  return submit(linear(destination, source, bytes), stream, Waits::no);
}
CUresult memcpy_htod(CUdeviceptr destination, const void* source, size_t bytes) {
  if (bytes != 0 && !is_device(destination)) return CUDA_ERROR_INVALID_VALUE;
  return submit(linear(destination, address_of(source), bytes), nullptr, Waits::for_the_result);
}
CUresult memcpy_dtoh(void* destination, CUdeviceptr source, size_t bytes) {
  if (bytes != 0 && !is_device(source)) return CUDA_ERROR_INVALID_VALUE;
  return submit(linear(address_of(destination), source, bytes), nullptr, Waits::for_the_result);
}
CUresult memcpy_dtod(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  if (bytes != 0 && (!is_device(source) || !is_device(destination))) return CUDA_ERROR_INVALID_VALUE;
  return submit(linear(destination, source, bytes), nullptr, Waits::for_the_result);
}
CUresult memcpy_htod_async(CUdeviceptr destination, const void* source, size_t bytes, CUstream stream) {
  if (bytes != 0 && !is_device(destination)) return CUDA_ERROR_INVALID_VALUE;
  return submit(linear(destination, address_of(source), bytes), stream, Waits::no);
}
CUresult memcpy_dtoh_async(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  if (bytes != 0 && !is_device(source)) return CUDA_ERROR_INVALID_VALUE;
  return submit(linear(address_of(destination), source, bytes), stream, Waits::no);
}
CUresult memcpy_dtod_async(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  if (bytes != 0 && (!is_device(source) || !is_device(destination))) return CUDA_ERROR_INVALID_VALUE;
  return submit(linear(destination, source, bytes), stream, Waits::no);
}
CUresult memcpy_htoa(CUarray destination, size_t offset, const void* source, size_t bytes) {
  return submit_array(0, address_of(source), destination, offset, bytes, nullptr, Waits::for_the_result);
}
CUresult memcpy_atoh(void* destination, CUarray source, size_t offset, size_t bytes) {
  return submit_array(address_of(destination), 0, source, offset, bytes, nullptr, Waits::for_the_result);
}
CUresult memcpy_dtoa(CUarray destination, size_t offset, CUdeviceptr source, size_t bytes) {
  return submit_array(0, source, destination, offset, bytes, nullptr, Waits::for_the_result);
}
CUresult memcpy_atod(CUdeviceptr destination, CUarray source, size_t offset, size_t bytes) {
  return submit_array(destination, 0, source, offset, bytes, nullptr, Waits::for_the_result);
}
CUresult memcpy_2d(const CUDA_MEMCPY2D* copy) { return submit_2d(copy, nullptr, Waits::for_the_result); }
CUresult memcpy_2d_unaligned(const CUDA_MEMCPY2D* copy) { return submit_2d(copy, nullptr, Waits::for_the_result); }
CUresult memcpy_2d_async(const CUDA_MEMCPY2D* copy, CUstream stream) { return submit_2d(copy, stream, Waits::no); }
CUresult memcpy_3d(const CUDA_MEMCPY3D* copy) { return submit_3d(copy, nullptr, Waits::for_the_result); }
CUresult memcpy_3d_async(const CUDA_MEMCPY3D* copy, CUstream stream) { return submit_3d(copy, stream, Waits::no); }
CUresult memcpy_3d_peer(const CUDA_MEMCPY3D_PEER* copy) { return submit_peer(copy, nullptr, Waits::for_the_result); }
CUresult memcpy_3d_peer_async(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return submit_peer(copy, stream, Waits::no);
}

CUresult memcpy_batch_async(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* sizes, size_t count,
                            CUmemcpyAttributes*, size_t*, size_t, size_t* failed, CUstream stream) {
  if (destinations == nullptr || sources == nullptr || sizes == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult result = memcpy_async(destinations[i], sources[i], sizes[i], stream);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}
CUresult memcpy_batch_async(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, CUstream stream) {
  return memcpy_batch_async(destinations, sources, sizes, count, attributes, indices, attribute_count, nullptr, stream);
}

CUresult memset_d8(CUdeviceptr destination, unsigned char value, size_t count) {
  return submit(fill_of(destination, value, 1, count, 1, 0), nullptr, Waits::for_the_result);
}
CUresult memset_d16(CUdeviceptr destination, unsigned short value, size_t count) {
  return submit(fill_of(destination, value, 2, count, 1, 0), nullptr, Waits::for_the_result);
}
CUresult memset_d32(CUdeviceptr destination, unsigned int value, size_t count) {
  return submit(fill_of(destination, value, 4, count, 1, 0), nullptr, Waits::for_the_result);
}
CUresult memset_d2d8(CUdeviceptr destination, size_t pitch, unsigned char value, size_t width, size_t height) {
  return submit(fill_of(destination, value, 1, width, height, pitch), nullptr, Waits::for_the_result);
}
CUresult memset_d2d16(CUdeviceptr destination, size_t pitch, unsigned short value, size_t width, size_t height) {
  return submit(fill_of(destination, value, 2, width, height, pitch), nullptr, Waits::for_the_result);
}
CUresult memset_d2d32(CUdeviceptr destination, size_t pitch, unsigned int value, size_t width, size_t height) {
  return submit(fill_of(destination, value, 4, width, height, pitch), nullptr, Waits::for_the_result);
}
CUresult memset_d8_async(CUdeviceptr destination, unsigned char value, size_t count, CUstream stream) {
  return submit(fill_of(destination, value, 1, count, 1, 0), stream, Waits::no);
}
CUresult memset_d16_async(CUdeviceptr destination, unsigned short value, size_t count, CUstream stream) {
  return submit(fill_of(destination, value, 2, count, 1, 0), stream, Waits::no);
}
CUresult memset_d32_async(CUdeviceptr destination, unsigned int value, size_t count, CUstream stream) {
  return submit(fill_of(destination, value, 4, count, 1, 0), stream, Waits::no);
}
CUresult memset_d2d8_async(CUdeviceptr destination, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  return submit(fill_of(destination, value, 1, width, height, pitch), stream, Waits::no);
}
CUresult memset_d2d16_async(CUdeviceptr destination, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  return submit(fill_of(destination, value, 2, width, height, pitch), stream, Waits::no);
}
CUresult memset_d2d32_async(CUdeviceptr destination, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream) {
  return submit(fill_of(destination, value, 4, width, height, pitch), stream, Waits::no);
}

}  // namespace spillway::simulated::driver
