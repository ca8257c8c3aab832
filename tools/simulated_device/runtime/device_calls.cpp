#include <algorithm>
#include <cstring>
#include <vector>

#include "tools/simulated_device/runtime/runtime.hpp"

namespace spillway::simulated::runtime {
namespace {

int& device_of_thread() {
  thread_local int device = 0;
  return device;
}

CUresult initialize() {
  static const CUresult result = driver()->cuInit(0);
  return result;
}

// Retained once per process, as the real runtime does; given back by nobody.
CUresult primary_context(int device, CUcontext& out) {
  unsigned flags = 0;
  int active = 0;
  const CUresult state = driver()->cuDevicePrimaryCtxGetState(device, &flags, &active);
  if (state != CUDA_SUCCESS) return state;
  return driver()->cuDevicePrimaryCtxRetain(&out, device);
}

cudaError_t current_device(int& device) {
  CUcontext current = nullptr;
  SPILLWAY_RETURN_IF_ERROR(need_driver());
  if (driver()->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) {
    return error_of(driver()->cuCtxGetDevice(&device));
  }
  device = device_of_thread();
  return cudaSuccess;
}

int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  (void)driver()->cuDeviceGetAttribute(&value, which, device);
  return value;
}

}  // namespace

cudaError_t need_driver() {
  if (driver() == nullptr) return cudaErrorInsufficientDriver;
  return error_of(initialize());
}

cudaError_t need_context() {
  SPILLWAY_RETURN_IF_ERROR(need_driver());
  CUcontext current = nullptr;
  if (driver()->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) return cudaSuccess;
  CUcontext primary = nullptr;
  SPILLWAY_RETURN_IF_ERROR(error_of(primary_context(device_of_thread(), primary)));
  return error_of(driver()->cuCtxSetCurrent(primary));
}

cudaError_t get_device_count(int* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  *count = 0;
  SPILLWAY_RETURN_IF_ERROR(need_driver());
  return error_of(driver()->cuDeviceGetCount(count));
}

cudaError_t get_device(int* device) { return device == nullptr ? cudaErrorInvalidValue : current_device(*device); }

cudaError_t set_device(int device) {
  int count = 0;
  SPILLWAY_RETURN_IF_ERROR(get_device_count(&count));
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  device_of_thread() = device;
  CUcontext primary = nullptr;
  SPILLWAY_RETURN_IF_ERROR(error_of(primary_context(device, primary)));
  return error_of(driver()->cuCtxSetCurrent(primary));
}

cudaError_t get_device_properties(cudaDeviceProp* p, int device) {
  SPILLWAY_RETURN_IF_ERROR(need_driver());
  if (p == nullptr) return cudaErrorInvalidValue;
  std::memset(p, 0, sizeof *p);
  SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuDeviceGetName(p->name, sizeof p->name, device)));
  SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuDeviceTotalMem(&p->totalGlobalMem, device)));
  SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuDeviceGetUuid(&p->uuid, device)));
  p->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  p->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  p->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  p->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  p->maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  p->warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  p->sharedMemPerBlock = static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device));
  p->sharedMemPerMultiprocessor =
      static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
  p->sharedMemPerBlockOptin =
      static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  p->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);
  p->regsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, device);
  p->totalConstMem = static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device));
  p->memPitch = static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, device));
  p->textureAlignment = static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device));
  p->l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
  p->memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device);
  p->asyncEngineCount = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, device);
  p->unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device);
  p->managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
  p->concurrentManagedAccess = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
  p->pageableMemoryAccess = attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device);
  p->concurrentKernels = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, device);
  p->cooperativeLaunch = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device);
  p->canMapHostMemory = attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, device);
  p->memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
  p->pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
  p->maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device);
  p->maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device);
  p->maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device);
  p->maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device);
  p->maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device);
  p->maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device);
  return cudaSuccess;
}

cudaError_t device_get_attribute(int* value, cudaDeviceAttr which, int device) {
  SPILLWAY_RETURN_IF_ERROR(need_driver());
  return error_of(
      driver()->cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(which), device));  // same numbers
}

cudaError_t device_synchronize() {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  return error_of(driver()->cuCtxSynchronize());
}

cudaError_t device_reset() {
  int device = 0;
  SPILLWAY_RETURN_IF_ERROR(current_device(device));
  SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuDevicePrimaryCtxReset(device)));
  return error_of(driver()->cuCtxSetCurrent(nullptr));
}

cudaError_t set_device_flags(unsigned int flags) {
  int device = 0;
  SPILLWAY_RETURN_IF_ERROR(current_device(device));
  return error_of(driver()->cuDevicePrimaryCtxSetFlags(device, flags));
}

cudaError_t get_device_flags(unsigned int* flags) {
  int device = 0;
  int active = 0;
  SPILLWAY_RETURN_IF_ERROR(current_device(device));
  return error_of(driver()->cuDevicePrimaryCtxGetState(device, flags, &active));
}

cudaError_t init_device(int device, unsigned int, unsigned int) {
  SPILLWAY_RETURN_IF_ERROR(need_driver());
  CUcontext primary = nullptr;
  return error_of(primary_context(device, primary));
}

cudaError_t device_get_stream_priority_range(int* least, int* greatest) {
  SPILLWAY_DRIVER_CALL(cuCtxGetStreamPriorityRange, least, greatest);
}
cudaError_t device_set_limit(cudaLimit limit, size_t value) {
  SPILLWAY_DRIVER_CALL(cuCtxSetLimit, static_cast<CUlimit>(limit), value);
}
cudaError_t device_get_limit(size_t* value, cudaLimit limit) {
  SPILLWAY_DRIVER_CALL(cuCtxGetLimit, value, static_cast<CUlimit>(limit));
}
cudaError_t device_can_access_peer(int* can, int device, int peer) {
  SPILLWAY_DRIVER_CALL(cuDeviceCanAccessPeer, can, device, peer);
}

cudaError_t device_enable_peer_access(int peer, unsigned int flags) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  CUcontext other = nullptr;
  SPILLWAY_RETURN_IF_ERROR(error_of(primary_context(peer, other)));
  return error_of(driver()->cuCtxEnablePeerAccess(other, flags));
}

cudaError_t device_disable_peer_access(int peer) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  CUcontext other = nullptr;
  SPILLWAY_RETURN_IF_ERROR(error_of(primary_context(peer, other)));
  return error_of(driver()->cuCtxDisablePeerAccess(other));
}

cudaError_t device_get_pci_bus_id(char* text, int length, int device) {
  SPILLWAY_DRIVER_CALL(cuDeviceGetPCIBusId, text, length, device);
}
cudaError_t device_get_by_pci_bus_id(int* device, const char* text) {
  SPILLWAY_DRIVER_CALL(cuDeviceGetByPCIBusId, device, text);
}

cudaError_t driver_get_version(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = 0;
  return driver() == nullptr ? cudaSuccess : error_of(driver()->cuDriverGetVersion(version));
}

cudaError_t runtime_get_version(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = CUDART_VERSION;
  return cudaSuccess;
}

}  // namespace spillway::simulated::runtime
