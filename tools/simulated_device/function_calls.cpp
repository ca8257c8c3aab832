// The driver's calls on functions and kernels: names, parameters, attributes, occupancy.
#include <algorithm>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

CUresult parameter_info(const Function& function, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function.twin == nullptr || index >= function.twin->parameter_sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function.twin->parameter_offsets[index];
  if (size != nullptr) *size = function.twin->parameter_sizes[index];
  return CUDA_SUCCESS;
}

CUresult attribute_of(const Function& function, CUfunction_attribute attribute, int* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function.max_dynamic_shared;
      break;
    default:
      *value = 0;
  }
  return attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(Function& function, CUfunction_attribute attribute, int value) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  if (value < 0 || value > 232448) return CUDA_ERROR_INVALID_VALUE;
  function.max_dynamic_shared = value;
  return CUDA_SUCCESS;
}

// cuFunc* queries know CUfunctions only: on a CUkernel they fail, as the real ones do.
CUresult plain_function(CUfunction handle, Function*& out) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  out = find_function(handle);
  return out == nullptr || out->is_kernel ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult kernel(CUkernel handle, Function*& out) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  out = find_function(handle);
  return out == nullptr || !out->is_kernel ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

CUresult kernel_get_function(CUfunction* out, CUkernel handle) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(kernel(handle, function));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function->function == nullptr) {
    CUmodule module = nullptr;
    SPILLWAY_RETURN_IF_FAILED(library_get_module(&module, reinterpret_cast<CUlibrary>(function->owner)));
    function->function =
        reinterpret_cast<CUfunction>(function_of(*find_module(module, ModuleKind::module), function->name.c_str()));
  }
  *out = function->function;
  return CUDA_SUCCESS;
}

CUresult kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel handle, CUdevice) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(kernel(handle, function));
  return attribute_of(*function, attribute, value);
}

CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(kernel(handle, function));
  return set_attribute(*function, attribute, value);
}

CUresult kernel_set_cache_config(CUkernel handle, CUfunc_cache, CUdevice) {
  Function* function = nullptr;
  return kernel(handle, function);
}

CUresult kernel_get_name(const char** name, CUkernel handle) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(kernel(handle, function));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult kernel_get_param_info(CUkernel handle, size_t index, size_t* offset, size_t* size) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(kernel(handle, function));
  return parameter_info(*function, index, offset, size);
}

CUresult kernel_get_library(CUlibrary* library, CUkernel handle) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(kernel(handle, function));
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = reinterpret_cast<CUlibrary>(function->owner);
  return CUDA_SUCCESS;
}

CUresult func_get_attribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const Function* function = find_function(handle);  // this one takes a CUkernel too: the runtime passes them
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : attribute_of(*function, attribute, value);
}

CUresult func_set_attribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Function* function = find_function(handle);
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : set_attribute(*function, attribute, value);
}

CUresult func_set_cache_config(CUfunction handle, CUfunc_cache) {
  Function* function = nullptr;
  return plain_function(handle, function);
}

CUresult func_get_module(CUmodule* module, CUfunction handle) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(plain_function(handle, function));
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(function->owner);
  return CUDA_SUCCESS;
}

CUresult func_get_name(const char** name, CUfunction handle) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(plain_function(handle, function));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult func_get_param_info(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(plain_function(handle, function));
  return parameter_info(*function, index, offset, size);
}

CUresult func_is_loaded(CUfunctionLoadingState* state, CUfunction handle) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(plain_function(handle, function));
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult func_load(CUfunction handle) {
  Function* function = nullptr;
  return plain_function(handle, function);
}

CUresult occupancy_max_active_blocks_per_multiprocessor(int* blocks, CUfunction handle, int block_size, size_t) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (blocks == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (find_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = block_size > 1024 ? 0 : std::min(32, 2048 / block_size);
  return CUDA_SUCCESS;
}

CUresult occupancy_max_active_blocks_per_multiprocessor_with_flags(int* blocks, CUfunction handle, int block_size,
                                                                   size_t shared, unsigned int) {
  return occupancy_max_active_blocks_per_multiprocessor(blocks, handle, block_size, shared);
}

CUresult occupancy_max_potential_block_size(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize, size_t,
                                            int limit) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *block = limit > 0 ? std::min(limit, 1024) : 1024;
  *grid = 132 * std::min(32, 2048 / *block);
  return CUDA_SUCCESS;
}

CUresult occupancy_max_potential_block_size_with_flags(int* grid, int* block, CUfunction handle,
                                                       CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                       unsigned int) {
  return occupancy_max_potential_block_size(grid, block, handle, shared_of, shared, limit);
}

CUresult occupancy_available_dynamic_smem_per_block(size_t* bytes, CUfunction handle, int blocks, int) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (bytes == nullptr || blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (find_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *bytes = static_cast<std::size_t>(232448 / blocks);
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated::driver
