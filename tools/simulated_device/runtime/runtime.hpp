// The stand-in CUDA runtime: thin calls on the driver, a current device per thread, the last error per thread, and the
// registration of the program's fat binaries.
#pragma once

#include <cuda_runtime_api.h>

#include "tools/simulated_device/runtime/driver.hpp"

namespace spillway::simulated::runtime {

#define SPILLWAY_DECLARE_standard(implementation, parameters) cudaError_t implementation parameters;
#define SPILLWAY_DECLARE_per_thread(implementation, parameters)
#define ENTRY(symbol, kind, implementation, parameters, arguments) SPILLWAY_DECLARE_##kind(implementation, parameters)
#include "tools/simulated_device/runtime/entry_points.def"
#undef ENTRY

// cuInit has been called and worked.
cudaError_t need_driver();
// And this thread has a current context: its device's primary one unless the program set another.
cudaError_t need_context();

// The kernel registered for a host function's address, its library loaded on first use.
cudaError_t find_kernel(const void* host_function, CUkernel& out);

inline cudaError_t error_of(CUresult result) {
  return static_cast<cudaError_t>(result);
}  // same numbers since CUDA 10.1
inline CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace spillway::simulated::runtime

#define SPILLWAY_RETURN_IF_ERROR(expression)                                                                   \
  do {                                                                                                         \
    if (const cudaError_t spillway_error = (expression); spillway_error != cudaSuccess) return spillway_error; \
  } while (false)

// Calls a driver function with a context current; cudaErrorCallRequiresNewerDriver where the driver has none.
#define SPILLWAY_DRIVER_CALL(name, ...)                                     \
  do {                                                                      \
    SPILLWAY_RETURN_IF_ERROR(need_context());                               \
    if (driver()->name == nullptr) return cudaErrorCallRequiresNewerDriver; \
    return error_of(driver()->name(__VA_ARGS__));                           \
  } while (false)
