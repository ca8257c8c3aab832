#include <cstring>

#include "tools/simulated_device/runtime/registration.hpp"
#include "tools/simulated_device/runtime/runtime.hpp"

namespace spillway::simulated::runtime {
namespace {

CUmemLocation location_of(cudaMemLocation location) {
  return {static_cast<CUmemLocationType>(location.type), location.id};
}

void* pointer_of(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUDA_MEMCPY2D rows(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
                   std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy{};
  const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  copy.srcHost = source;
  copy.srcDevice = address_of(source);
  copy.srcPitch = source_pitch;
  copy.dstHost = destination;
  copy.dstDevice = address_of(destination);
  copy.dstPitch = destination_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

cudaError_t primary_of(int device, CUcontext& context) {
  return error_of(driver()->cuDevicePrimaryCtxRetain(&context, device));
}

// Outputs are void** in the runtime and CUdeviceptr* in the driver.
template <class Call>
cudaError_t give_pointer(void** out, Call call) {
  if (out == nullptr) return cudaErrorInvalidValue;
  SPILLWAY_RETURN_IF_ERROR(need_context());
  CUdeviceptr address = 0;
  SPILLWAY_RETURN_IF_ERROR(error_of(call(&address)));
  *out = pointer_of(address);
  return cudaSuccess;
}

}  // namespace

cudaError_t memory_allocate(void** pointer, size_t bytes) {
  if (bytes == 0 && pointer != nullptr) {  // the runtime's own rule; the driver refuses it
    *pointer = nullptr;
    return need_context();
  }
  return give_pointer(pointer, [&](CUdeviceptr* out) { return driver()->cuMemAlloc(out, bytes); });
}

cudaError_t malloc_managed(void** pointer, size_t bytes, unsigned int flags) {
  return give_pointer(pointer, [&](CUdeviceptr* out) { return driver()->cuMemAllocManaged(out, bytes, flags); });
}

cudaError_t malloc_pitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return give_pointer(pointer,
                      [&](CUdeviceptr* out) { return driver()->cuMemAllocPitch(out, pitch, width, height, 4); });
}

cudaError_t malloc_host(void** pointer, size_t bytes) { return host_alloc(pointer, bytes, 0); }
cudaError_t host_alloc(void** pointer, size_t bytes, unsigned int flags) {
  SPILLWAY_DRIVER_CALL(cuMemHostAlloc, pointer, bytes, flags);
}

cudaError_t memory_free(void* pointer) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  return pointer == nullptr ? cudaSuccess : error_of(driver()->cuMemFree(address_of(pointer)));
}

cudaError_t free_host(void* pointer) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  return pointer == nullptr ? cudaSuccess : error_of(driver()->cuMemFreeHost(pointer));
}

cudaError_t host_register(void* pointer, size_t bytes, unsigned int flags) {
  SPILLWAY_DRIVER_CALL(cuMemHostRegister, pointer, bytes, flags);
}
cudaError_t host_unregister(void* pointer) { SPILLWAY_DRIVER_CALL(cuMemHostUnregister, pointer); }
cudaError_t host_get_device_pointer(void** out, void* pointer, unsigned int flags) {
  return give_pointer(
      out, [&](CUdeviceptr* address) { return driver()->cuMemHostGetDevicePointer(address, pointer, flags); });
}
cudaError_t host_get_flags(unsigned int* flags, void* pointer) {
  SPILLWAY_DRIVER_CALL(cuMemHostGetFlags, flags, pointer);
}

cudaError_t malloc_async(void** pointer, size_t bytes, cudaStream_t stream) {
  return give_pointer(pointer, [&](CUdeviceptr* out) { return driver()->cuMemAllocAsync(out, bytes, stream); });
}
cudaError_t malloc_from_pool_async(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return give_pointer(pointer,
                      [&](CUdeviceptr* out) { return driver()->cuMemAllocFromPoolAsync(out, bytes, pool, stream); });
}
cudaError_t free_async(void* pointer, cudaStream_t stream) {
  SPILLWAY_DRIVER_CALL(cuMemFreeAsync, address_of(pointer), stream);
}
cudaError_t mem_get_info(size_t* free, size_t* total) { SPILLWAY_DRIVER_CALL(cuMemGetInfo, free, total); }

cudaError_t pointer_get_attributes(cudaPointerAttributes* out, const void* pointer) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  if (out == nullptr) return cudaErrorInvalidValue;
  unsigned type = 0;
  unsigned managed = 0;
  int device = 0;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &managed, &device, &device_pointer, &host_pointer};
  SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuPointerGetAttributes(5, which, values, address_of(pointer))));
  *out = {};
  out->device = device;
  out->devicePointer = pointer_of(device_pointer);
  out->hostPointer = type == 0 ? const_cast<void*>(pointer) : host_pointer;
  out->type = managed != 0                   ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
              : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                                             : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t mem_prefetch_async(const void* pointer, size_t bytes, cudaMemLocation location, unsigned int flags,
                               cudaStream_t stream) {
  SPILLWAY_DRIVER_CALL(cuMemPrefetchAsync, address_of(pointer), bytes, location_of(location), flags, stream);
}
cudaError_t mem_advise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
  SPILLWAY_DRIVER_CALL(cuMemAdvise, address_of(pointer), bytes, static_cast<CUmem_advise>(advice),
                       location_of(location));
}
cudaError_t mem_range_get_attribute(void* data, size_t data_bytes, cudaMemRangeAttribute attribute, const void* pointer,
                                    size_t bytes) {
  SPILLWAY_DRIVER_CALL(cuMemRangeGetAttribute, data, data_bytes, static_cast<CUmem_range_attribute>(attribute),
                       address_of(pointer), bytes);
}

cudaError_t device_get_default_mem_pool(cudaMemPool_t* pool, int device) {
  SPILLWAY_DRIVER_CALL(cuDeviceGetDefaultMemPool, pool, device);
}
cudaError_t device_get_mem_pool(cudaMemPool_t* pool, int device) {
  SPILLWAY_DRIVER_CALL(cuDeviceGetMemPool, pool, device);
}
cudaError_t device_set_mem_pool(int device, cudaMemPool_t pool) {
  SPILLWAY_DRIVER_CALL(cuDeviceSetMemPool, device, pool);
}
cudaError_t mem_pool_create(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  if (properties == nullptr) return cudaErrorInvalidValue;
  CUmemPoolProps same{};
  same.allocType = static_cast<CUmemAllocationType>(properties->allocType);
  same.handleTypes = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
  same.location = location_of(properties->location);
  same.maxSize = properties->maxSize;
  return error_of(driver()->cuMemPoolCreate(pool, &same));
}
cudaError_t mem_pool_destroy(cudaMemPool_t pool) { SPILLWAY_DRIVER_CALL(cuMemPoolDestroy, pool); }
cudaError_t mem_pool_trim_to(cudaMemPool_t pool, size_t bytes) { SPILLWAY_DRIVER_CALL(cuMemPoolTrimTo, pool, bytes); }
cudaError_t mem_pool_set_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  SPILLWAY_DRIVER_CALL(cuMemPoolSetAttribute, pool, static_cast<CUmemPool_attribute>(attribute), value);
}
cudaError_t mem_pool_get_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  SPILLWAY_DRIVER_CALL(cuMemPoolGetAttribute, pool, static_cast<CUmemPool_attribute>(attribute), value);
}

cudaError_t ipc_get_mem_handle(cudaIpcMemHandle_t* handle, void* pointer) {
  SPILLWAY_DRIVER_CALL(cuIpcGetMemHandle, reinterpret_cast<CUipcMemHandle*>(handle), address_of(pointer));
}
cudaError_t ipc_open_mem_handle(void** pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
  CUipcMemHandle same;
  std::memcpy(&same, &handle, sizeof same);
  return give_pointer(pointer, [&](CUdeviceptr* out) { return driver()->cuIpcOpenMemHandle(out, same, flags); });
}
cudaError_t ipc_close_mem_handle(void* pointer) { SPILLWAY_DRIVER_CALL(cuIpcCloseMemHandle, address_of(pointer)); }

cudaError_t copy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      SPILLWAY_DRIVER_CALL(cuMemcpyHtoD, address_of(destination), source, bytes);
    case cudaMemcpyDeviceToHost:
      SPILLWAY_DRIVER_CALL(cuMemcpyDtoH, destination, address_of(source), bytes);
    case cudaMemcpyDeviceToDevice:
      SPILLWAY_DRIVER_CALL(cuMemcpyDtoD, address_of(destination), address_of(source), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      SPILLWAY_DRIVER_CALL(cuMemcpy, address_of(destination), address_of(source), bytes);
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t memcpy_async(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      SPILLWAY_DRIVER_CALL(cuMemcpyHtoDAsync, address_of(destination), source, bytes, stream);
    case cudaMemcpyDeviceToHost:
      SPILLWAY_DRIVER_CALL(cuMemcpyDtoHAsync, destination, address_of(source), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      SPILLWAY_DRIVER_CALL(cuMemcpyDtoDAsync, address_of(destination), address_of(source), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      SPILLWAY_DRIVER_CALL(cuMemcpyAsync, address_of(destination), address_of(source), bytes, stream);
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t memcpy2d(void* destination, size_t destination_pitch, const void* source, size_t source_pitch, size_t width,
                     size_t height, cudaMemcpyKind kind) {
  const CUDA_MEMCPY2D parameters = rows(destination, destination_pitch, source, source_pitch, width, height, kind);
  SPILLWAY_DRIVER_CALL(cuMemcpy2DUnaligned, &parameters);
}
cudaError_t memcpy2d_async(void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
                           size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  const CUDA_MEMCPY2D parameters = rows(destination, destination_pitch, source, source_pitch, width, height, kind);
  SPILLWAY_DRIVER_CALL(cuMemcpy2DAsync, &parameters, stream);
}

cudaError_t memcpy_peer(void* destination, int destination_device, const void* source, int source_device,
                        size_t bytes) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  CUcontext to = nullptr;
  CUcontext from = nullptr;
  SPILLWAY_RETURN_IF_ERROR(primary_of(destination_device, to));
  SPILLWAY_RETURN_IF_ERROR(primary_of(source_device, from));
  return error_of(driver()->cuMemcpyPeer(address_of(destination), to, address_of(source), from, bytes));
}
cudaError_t memcpy_peer_async(void* destination, int destination_device, const void* source, int source_device,
                              size_t bytes, cudaStream_t stream) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  CUcontext to = nullptr;
  CUcontext from = nullptr;
  SPILLWAY_RETURN_IF_ERROR(primary_of(destination_device, to));
  SPILLWAY_RETURN_IF_ERROR(primary_of(source_device, from));
  return error_of(driver()->cuMemcpyPeerAsync(address_of(destination), to, address_of(source), from, bytes, stream));
}

cudaError_t memcpy_to_symbol(const void* symbol, const void* source, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* address = nullptr;
  std::size_t room = 0;
  SPILLWAY_RETURN_IF_ERROR(find_variable(symbol, address, room));
  if (offset > room || bytes > room - offset) return cudaErrorInvalidValue;
  return copy(static_cast<char*>(address) + offset, source, bytes, kind);
}
cudaError_t memcpy_from_symbol(void* destination, const void* symbol, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  void* address = nullptr;
  std::size_t room = 0;
  SPILLWAY_RETURN_IF_ERROR(find_variable(symbol, address, room));
  if (offset > room || bytes > room - offset) return cudaErrorInvalidValue;
  return copy(destination, static_cast<const char*>(address) + offset, bytes, kind);
}
cudaError_t get_symbol_address(void** out, const void* symbol) {
  std::size_t bytes = 0;
  return out == nullptr ? cudaErrorInvalidValue : find_variable(symbol, *out, bytes);
}
cudaError_t get_symbol_size(size_t* bytes, const void* symbol) {
  void* address = nullptr;
  return bytes == nullptr ? cudaErrorInvalidValue : find_variable(symbol, address, *bytes);
}

cudaError_t fill(void* pointer, int value, size_t bytes) {
  SPILLWAY_DRIVER_CALL(cuMemsetD8, address_of(pointer), static_cast<unsigned char>(value), bytes);
}
cudaError_t memset_async(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  SPILLWAY_DRIVER_CALL(cuMemsetD8Async, address_of(pointer), static_cast<unsigned char>(value), bytes, stream);
}
cudaError_t memset2d(void* pointer, size_t pitch, int value, size_t width, size_t height) {
  SPILLWAY_DRIVER_CALL(cuMemsetD2D8, address_of(pointer), pitch, static_cast<unsigned char>(value), width, height);
}
cudaError_t memset2d_async(void* pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  SPILLWAY_DRIVER_CALL(cuMemsetD2D8Async, address_of(pointer), pitch, static_cast<unsigned char>(value), width, height,
                       stream);
}

}  // namespace spillway::simulated::runtime
