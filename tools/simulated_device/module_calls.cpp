// The driver's calls on modules and libraries.
#include <cstdio>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {

CUresult module_load(CUmodule* module, const char* file) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (module == nullptr || file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* opened = std::fopen(file, "rb");
  if (opened == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::fclose(opened);
  *module = reinterpret_cast<CUmodule>(make_module(ModuleKind::module, file));
  return CUDA_SUCCESS;
}

CUresult module_load_data(CUmodule* module, const void* image) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(make_module(ModuleKind::module, ""));
  return CUDA_SUCCESS;
}

CUresult module_load_data_ex(CUmodule* module, const void* image, unsigned int, CUjit_option*, void**) {
  return module_load_data(module, image);
}
CUresult module_load_fat_binary(CUmodule* module, const void* image) { return module_load_data(module, image); }

CUresult module_unload(CUmodule handle) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Module* module = find_module(handle, ModuleKind::module);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wait_for_context(*context);
  unload(module);
  return CUDA_SUCCESS;
}

CUresult module_get_function(CUfunction* function, CUmodule handle, const char* name) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Module* module = find_module(handle, ModuleKind::module);
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *function = reinterpret_cast<CUfunction>(function_of(*module, name));
  return CUDA_SUCCESS;
}

CUresult module_get_global(CUdeviceptr*, size_t*, CUmodule handle, const char*) {
  return find_module(handle, ModuleKind::module) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_FOUND;
}

CUresult module_get_loading_mode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                           void**, unsigned int) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = reinterpret_cast<CUlibrary>(make_module(ModuleKind::library, ""));
  return CUDA_SUCCESS;
}

CUresult library_load_from_file(CUlibrary* library, const char* file, CUjit_option*, void**, unsigned int,
                                CUlibraryOption*, void**, unsigned int) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (library == nullptr || file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* opened = std::fopen(file, "rb");
  if (opened == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::fclose(opened);
  *library = reinterpret_cast<CUlibrary>(make_module(ModuleKind::library, file));
  return CUDA_SUCCESS;
}

CUresult library_unload(CUlibrary handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Module* module = find_module(handle, ModuleKind::library);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (int device = 0; valid_device(device); ++device) wait_for_device(device);
  if (Module* inner = find_module(module->module_of_library, ModuleKind::module)) unload(inner);
  unload(module);
  return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel* out, CUlibrary handle, const char* name) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Module* module = find_module(handle, ModuleKind::library);
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUkernel>(function_of(*module, name));
  return CUDA_SUCCESS;
}

CUresult library_get_module(CUmodule* out, CUlibrary handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  Module* module = find_module(handle, ModuleKind::library);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (module->module_of_library == nullptr) {
    module->module_of_library = reinterpret_cast<CUmodule>(make_module(ModuleKind::module, module->name));
  }
  *out = module->module_of_library;
  return CUDA_SUCCESS;
}

CUresult library_get_global(CUdeviceptr*, size_t*, CUlibrary handle, const char*) {
  return find_module(handle, ModuleKind::library) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_FOUND;
}
CUresult library_get_managed(CUdeviceptr* pointer, size_t* bytes, CUlibrary handle, const char* name) {
  return library_get_global(pointer, bytes, handle, name);
}

}  // namespace spillway::simulated::driver
