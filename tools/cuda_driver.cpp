#include "tools/cuda_driver.hpp"

#include <dlfcn.h>

#include <chrono>

namespace spillway::tools {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

}  // namespace

std::optional<std::string> CudaDriver::open(const std::string& library) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return "no CUDA driver: " + library +
           " cannot be loaded; install the driver (spillway doctor says more), or try --simulated";
  }
  std::string missing;
  find(opened, "cuGetErrorName", error_name_, missing);
  find(opened, "cuInit", init, missing);
  find(opened, "cuDriverGetVersion", driver_version, missing);
  find(opened, "cuDeviceGetCount", device_count, missing);
  find(opened, "cuDeviceGet", device_get, missing);
  find(opened, "cuDeviceGetName", device_name, missing);
  find(opened, "cuDeviceGetUuid_v2", device_uuid, missing);
  find(opened, "cuDeviceGetAttribute", device_attribute, missing);
  find(opened, "cuDevicePrimaryCtxRetain", context_retain, missing);
  find(opened, "cuDevicePrimaryCtxRelease_v2", context_release, missing);
  find(opened, "cuCtxSetCurrent", context_set, missing);
  find(opened, "cuMemGetInfo_v2", memory_info, missing);
  find(opened, "cuMemAlloc_v2", allocate, missing);
  find(opened, "cuMemAllocManaged", allocate_managed, missing);
  find(opened, "cuMemFree_v2", free, missing);
  find(opened, "cuMemHostAlloc", allocate_host, missing);
  find(opened, "cuMemFreeHost", free_host, missing);
  find(opened, "cuMemcpyHtoDAsync_v2", copy_in, missing);
  find(opened, "cuMemcpyDtoHAsync_v2", copy_out, missing);
  // The first versions, which name the host by a number: every driver has them.
  find(opened, "cuMemPrefetchAsync", prefetch, missing);
  find(opened, "cuMemAdvise", advise, missing);
  find(opened, "cuStreamCreate", stream_create, missing);
  find(opened, "cuStreamSynchronize", stream_synchronize, missing);
  find(opened, "cuStreamWaitEvent", stream_wait, missing);
  find(opened, "cuStreamDestroy_v2", stream_destroy, missing);
  find(opened, "cuEventCreate", event_create, missing);
  find(opened, "cuEventRecord", event_record, missing);
  find(opened, "cuEventSynchronize", event_synchronize, missing);
  find(opened, "cuEventElapsedTime", event_elapsed, missing);
  find(opened, "cuEventDestroy_v2", event_destroy, missing);
  find(opened, "cuModuleLoadData", module_load, missing);
  find(opened, "cuModuleGetFunction", module_function, missing);
  find(opened, "cuModuleUnload", module_unload, missing);
  find(opened, "cuLaunchKernel", launch, missing);
  virtual_time_ = reinterpret_cast<std::int64_t (*)()>(::dlsym(opened, "spillway_simulated_virtual_time"));
  if (missing.empty()) return std::nullopt;
  return library + " lacks " + missing + "; update the driver, or check LD_LIBRARY_PATH for a foreign libcuda.so.1";
}

double CudaDriver::clock() const {
  if (virtual_time_ != nullptr) return static_cast<double>(virtual_time_()) / 1e9;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void CudaDriver::check(int code, const char* function) const {
  if (code == 0) return;
  const char* name = nullptr;
  const bool named = error_name_ != nullptr && error_name_(code, &name) == 0 && name != nullptr;
  throw DriverFailure(std::string(function) + " says " + (named ? name : "error " + std::to_string(code)));
}

}  // namespace spillway::tools
