#include "tools/simulated_device/runtime/runtime.hpp"

namespace spillway::simulated::runtime {
namespace {

CUfunction launchable(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

int attribute_of(CUkernel kernel, CUfunction_attribute which) {
  int value = 0;
  int device = 0;
  (void)driver()->cuCtxGetDevice(&device);
  (void)driver()->cuKernelGetAttribute(&value, which, kernel, device);
  return value;
}

}  // namespace

cudaError_t launch_kernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                          cudaStream_t stream) {
  CUkernel kernel = nullptr;
  SPILLWAY_RETURN_IF_ERROR(find_kernel(function, kernel));
  return error_of(driver()->cuLaunchKernel(launchable(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                           static_cast<unsigned>(shared), stream, arguments, nullptr));
}

cudaError_t launch_kernel_ex_c(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  CUkernel kernel = nullptr;
  if (config == nullptr) return cudaErrorInvalidValue;
  SPILLWAY_RETURN_IF_ERROR(find_kernel(function, kernel));
  CUlaunchConfig same{};
  same.gridDimX = config->gridDim.x;
  same.gridDimY = config->gridDim.y;
  same.gridDimZ = config->gridDim.z;
  same.blockDimX = config->blockDim.x;
  same.blockDimY = config->blockDim.y;
  same.blockDimZ = config->blockDim.z;
  same.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  same.hStream = config->stream;
  same.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);  // the same layout
  same.numAttrs = config->numAttrs;
  return error_of(driver()->cuLaunchKernelEx(&same, launchable(kernel), arguments, nullptr));
}

cudaError_t launch_cooperative_kernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                      cudaStream_t stream) {
  CUkernel kernel = nullptr;
  SPILLWAY_RETURN_IF_ERROR(find_kernel(function, kernel));
  return error_of(driver()->cuLaunchCooperativeKernel(launchable(kernel), grid.x, grid.y, grid.z, block.x, block.y,
                                                      block.z, static_cast<unsigned>(shared), stream, arguments));
}

cudaError_t launch_host_func(cudaStream_t stream, cudaHostFn_t function, void* data) {
  SPILLWAY_DRIVER_CALL(cuLaunchHostFunc, stream, function, data);
}

cudaError_t func_set_attribute(const void* function, cudaFuncAttribute attribute, int value) {
  CUkernel kernel = nullptr;
  int device = 0;
  SPILLWAY_RETURN_IF_ERROR(find_kernel(function, kernel));
  SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuCtxGetDevice(&device)));
  return error_of(driver()->cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel, device));
}

cudaError_t func_get_attributes(cudaFuncAttributes* out, const void* function) {
  CUkernel kernel = nullptr;
  if (out == nullptr) return cudaErrorInvalidValue;
  SPILLWAY_RETURN_IF_ERROR(find_kernel(function, kernel));
  *out = {};
  out->maxThreadsPerBlock = attribute_of(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->numRegs = attribute_of(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS);
  out->ptxVersion = attribute_of(kernel, CU_FUNC_ATTRIBUTE_PTX_VERSION);
  out->binaryVersion = attribute_of(kernel, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  out->maxDynamicSharedSizeBytes = attribute_of(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  return cudaSuccess;
}

cudaError_t func_set_cache_config(const void* function, cudaFuncCache) {
  CUkernel kernel = nullptr;
  return find_kernel(function, kernel);
}

cudaError_t occupancy_max_active_blocks_per_multiprocessor(int* blocks, const void* function, int block_size,
                                                           size_t shared) {
  return occupancy_max_active_blocks_per_multiprocessor_with_flags(blocks, function, block_size, shared, 0);
}

cudaError_t occupancy_max_active_blocks_per_multiprocessor_with_flags(int* blocks, const void* function, int block_size,
                                                                      size_t shared, unsigned int flags) {
  CUkernel kernel = nullptr;
  SPILLWAY_RETURN_IF_ERROR(find_kernel(function, kernel));
  return error_of(driver()->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, launchable(kernel), block_size,
                                                                                 shared, flags));
}

cudaError_t get_kernel(cudaKernel_t* out, const void* function) {
  return out == nullptr ? cudaErrorInvalidValue : find_kernel(function, *out);
}

cudaError_t get_driver_entry_point_by_version(const char* symbol, void** function, unsigned int version,
                                              unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  SPILLWAY_RETURN_IF_ERROR(need_driver());
  if (flags == cudaEnableDefault && default_stream_of_call() == DefaultStream::per_thread)
    flags = cudaEnablePerThreadDefaultStream;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result = driver_lookup()(symbol, function, static_cast<int>(version), flags, &found);
  if (status != nullptr) {
    *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return error_of(result);
  }
  return result == CUDA_SUCCESS && found != CU_GET_PROC_ADDRESS_SUCCESS ? cudaErrorSymbolNotFound : error_of(result);
}

cudaError_t get_driver_entry_point(const char* symbol, void** function, unsigned long long flags,
                                   cudaDriverEntryPointQueryResult* status) {
  return get_driver_entry_point_by_version(symbol, function, CUDART_VERSION, flags, status);
}

cudaError_t profiler_start() { return need_context(); }
cudaError_t profiler_stop() { return need_context(); }

}  // namespace spillway::simulated::runtime
