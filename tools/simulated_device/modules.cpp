#include "tools/simulated_device/modules.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {

void load_twins(const std::vector<std::string>& paths, std::vector<std::string>& problems) {
  auto& twins = world().modules.twins;
  for (const auto& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problems.push_back("SPILLWAY_SIMULATED_KERNELS=\"" + path + "\": " + dlerror() + "; give a library of host twins");
      continue;
    }
    const auto list = reinterpret_cast<kernels::HostTwinsFunction>(dlsym(library, "spillway_host_twins"));
    if (list == nullptr) {
      problems.push_back("SPILLWAY_SIMULATED_KERNELS=\"" + path + "\": exports no spillway_host_twins; give a library of host twins");
      continue;
    }
    const kernels::HostTwin* first = nullptr;
    const std::size_t count = list(&first);
    for (std::size_t i = 0; i < count; ++i) twins.emplace(first[i].name, first + i);
  }
}

Function* find_function(const void* handle) {
  const auto found = world().modules.functions.find(handle);
  return found == world().modules.functions.end() ? nullptr : found->second;
}

namespace {

Module* make_module(bool is_library, std::string name) {
  auto made = std::make_unique<Module>();
  made->is_library = is_library;
  made->name = std::move(name);
  Module* result = made.get();
  world().modules.live[result] = std::move(made);
  return result;
}

Module* find_module(const void* handle, bool is_library) {
  const auto found = world().modules.live.find(const_cast<void*>(handle));
  return found == world().modules.live.end() || found->second->is_library != is_library ? nullptr : found->second.get();
}

void unload(Module* module) {
  Modules& modules = world().modules;
  for (const auto& [name, function] : module->functions) modules.functions.erase(function.get());
  const auto found = modules.live.find(module);
  modules.unloaded.push_back(std::move(found->second));
  modules.live.erase(found);
}

// The images are compiled code we do not read, so any name is found; one without a twin fails when it is launched.
Function* function_of(Module& module, const char* name) {
  auto& slot = module.functions[name];
  if (!slot) {
    slot = std::make_unique<Function>();
    slot->name = name;
    slot->owner = &module;
    slot->is_kernel = module.is_library;
    const auto twin = world().modules.twins.find(name);
    if (twin != world().modules.twins.end()) slot->twin = twin->second;
    world().modules.functions[slot.get()] = slot.get();
  }
  return slot.get();
}

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
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function.max_dynamic_shared; break;
    default: *value = 0;
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

namespace driver {

CUresult module_load(CUmodule* module, const char* file) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (module == nullptr || file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* opened = std::fopen(file, "rb");
  if (opened == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::fclose(opened);
  *module = reinterpret_cast<CUmodule>(make_module(false, file));
  return CUDA_SUCCESS;
}

CUresult module_load_data(CUmodule* module, const void* image) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(make_module(false, ""));
  return CUDA_SUCCESS;
}

CUresult module_load_data_ex(CUmodule* module, const void* image, unsigned int, CUjit_option*, void**) {
  return module_load_data(module, image);
}
CUresult module_load_fat_binary(CUmodule* module, const void* image) { return module_load_data(module, image); }

CUresult module_unload(CUmodule handle) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Module* module = find_module(handle, false);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wait_for_context(*context);
  unload(module);
  return CUDA_SUCCESS;
}

CUresult module_get_function(CUfunction* function, CUmodule handle, const char* name) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Module* module = find_module(handle, false);
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *function = reinterpret_cast<CUfunction>(function_of(*module, name));
  return CUDA_SUCCESS;
}

CUresult module_get_global(CUdeviceptr*, size_t*, CUmodule handle, const char*) {
  return find_module(handle, false) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_FOUND;
}

CUresult module_get_loading_mode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int, CUlibraryOption*, void**,
                           unsigned int) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = reinterpret_cast<CUlibrary>(make_module(true, ""));
  return CUDA_SUCCESS;
}

CUresult library_load_from_file(CUlibrary* library, const char* file, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                                void**, unsigned int) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (library == nullptr || file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* opened = std::fopen(file, "rb");
  if (opened == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::fclose(opened);
  *library = reinterpret_cast<CUlibrary>(make_module(true, file));
  return CUDA_SUCCESS;
}

CUresult library_unload(CUlibrary handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Module* module = find_module(handle, true);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (int device = 0; valid_device(device); ++device) wait_for_device(device);
  if (Module* inner = find_module(module->module_of_library, false)) unload(inner);
  unload(module);
  return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel* out, CUlibrary handle, const char* name) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Module* module = find_module(handle, true);
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUkernel>(function_of(*module, name));
  return CUDA_SUCCESS;
}

CUresult library_get_module(CUmodule* out, CUlibrary handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Module* module = find_module(handle, true);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (module->module_of_library == nullptr) {
    module->module_of_library = reinterpret_cast<CUmodule>(make_module(false, module->name));
  }
  *out = module->module_of_library;
  return CUDA_SUCCESS;
}

CUresult library_get_global(CUdeviceptr*, size_t*, CUlibrary handle, const char*) {
  return find_module(handle, true) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_FOUND;
}
CUresult library_get_managed(CUdeviceptr* pointer, size_t* bytes, CUlibrary handle, const char* name) {
  return library_get_global(pointer, bytes, handle, name);
}

CUresult kernel_get_function(CUfunction* out, CUkernel handle) {
  Function* function = nullptr;
  SPILLWAY_RETURN_IF_FAILED(kernel(handle, function));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function->function == nullptr) {
    CUmodule module = nullptr;
    SPILLWAY_RETURN_IF_FAILED(library_get_module(&module, reinterpret_cast<CUlibrary>(function->owner)));
    function->function = reinterpret_cast<CUfunction>(function_of(*find_module(module, false), function->name.c_str()));
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

CUresult occupancy_max_active_blocks_per_multiprocessor_with_flags(int* blocks, CUfunction handle, int block_size, size_t shared,
                                                                   unsigned int) {
  return occupancy_max_active_blocks_per_multiprocessor(blocks, handle, block_size, shared);
}

CUresult occupancy_max_potential_block_size(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize, size_t, int limit) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *block = limit > 0 ? std::min(limit, 1024) : 1024;
  *grid = 132 * std::min(32, 2048 / *block);
  return CUDA_SUCCESS;
}

CUresult occupancy_max_potential_block_size_with_flags(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_of,
                                                       size_t shared, int limit, unsigned int) {
  return occupancy_max_potential_block_size(grid, block, handle, shared_of, shared, limit);
}

CUresult occupancy_available_dynamic_smem_per_block(size_t* bytes, CUfunction handle, int blocks, int) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (bytes == nullptr || blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (find_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *bytes = static_cast<std::size_t>(232448 / blocks);
  return CUDA_SUCCESS;
}

}  // namespace driver
}  // namespace spillway::simulated
