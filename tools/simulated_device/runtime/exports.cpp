// The exported symbols, made from entry_points.def, and the few functions of another shape.
#include <cstdio>
#include <utility>

#include "tools/simulated_device/runtime/registration.hpp"
#include "tools/simulated_device/runtime/runtime.hpp"

#pragma GCC diagnostic ignored "-Wmissing-declarations"

namespace spillway::simulated::runtime {

// Per thread; cleared by cudaGetLastError only.
cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

namespace {

template <class Body>
cudaError_t enter(DefaultStream meaning, Body body) {
  DefaultStream& now = default_stream_of_call();
  const DefaultStream before = now;
  now = meaning;
  const cudaError_t result = body();
  now = before;
  if (result != cudaSuccess && result != cudaErrorNotReady) last_error() = result;
  return result;
}

}  // namespace

}  // namespace spillway::simulated::runtime

#define SPILLWAY_EXPORT extern "C" __attribute__((visibility("default")))
#define SPILLWAY_ENTRY_standard DefaultStream::legacy
#define SPILLWAY_ENTRY_per_thread DefaultStream::per_thread
#define ENTRY(symbol, kind, implementation, parameters, arguments)                                               \
  SPILLWAY_EXPORT cudaError_t CUDARTAPI symbol parameters {                                                      \
    using namespace spillway::simulated::runtime;                                                                \
    return enter(SPILLWAY_ENTRY_##kind, [&] { return spillway::simulated::runtime::implementation arguments; }); \
  }
#include "tools/simulated_device/runtime/entry_points.def"
#undef ENTRY

SPILLWAY_EXPORT cudaError_t CUDARTAPI cudaGetLastError() {
  return std::exchange(spillway::simulated::runtime::last_error(), cudaSuccess);
}
SPILLWAY_EXPORT cudaError_t CUDARTAPI cudaPeekAtLastError() { return spillway::simulated::runtime::last_error(); }

SPILLWAY_EXPORT const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define ERROR(code) \
  case code:        \
    return #code;
#include "tools/simulated_device/runtime/errors.def"
#undef ERROR
    default:
      return "unrecognized error code";
  }
}

SPILLWAY_EXPORT const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  using namespace spillway::simulated::runtime;
  const char* text = nullptr;
  if (driver() == nullptr)
    return error == cudaErrorInsufficientDriver ? "no CUDA driver was found" : cudaGetErrorName(error);
  if (driver()->cuGetErrorString(static_cast<CUresult>(error), &text) != CUDA_SUCCESS) return cudaGetErrorName(error);
  return text;
}

// What nvcc-generated code calls.
SPILLWAY_EXPORT void** CUDARTAPI __cudaRegisterFatBinary(void* fat_binary) {
  return spillway::simulated::runtime::register_fat_binary(fat_binary);
}
SPILLWAY_EXPORT void CUDARTAPI __cudaRegisterFatBinaryEnd(void**) {}
SPILLWAY_EXPORT void CUDARTAPI __cudaUnregisterFatBinary(void** handle) {
  spillway::simulated::runtime::unregister_fat_binary(handle);
}
SPILLWAY_EXPORT char CUDARTAPI __cudaInitModule(void**) { return 1; }
SPILLWAY_EXPORT void CUDARTAPI __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name,
                                                      int, uint3*, uint3*, dim3*, dim3*, int*) {
  spillway::simulated::runtime::register_function(handle, host_function, name);
}
SPILLWAY_EXPORT void CUDARTAPI __cudaRegisterVar(void** handle, char* host_variable, char*, const char* name, int,
                                                 size_t bytes, int, int) {
  spillway::simulated::runtime::register_variable(handle, host_variable, name, bytes);
}
SPILLWAY_EXPORT void CUDARTAPI __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, size_t, int,
                                                        int) {
  std::fprintf(
      stderr, "simulated device: __managed__ variable %s is not simulated; allocate it with cudaMallocManaged\n", name);
}
SPILLWAY_EXPORT unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                               CUstream_st* stream) {
  return spillway::simulated::runtime::push_configuration({grid, block, shared, stream});
}
SPILLWAY_EXPORT cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                                 void* stream) {
  const auto top = spillway::simulated::runtime::pop_configuration();
  if (!top) return cudaErrorMissingConfiguration;
  *grid = top->grid;
  *block = top->block;
  *shared = top->shared;
  *static_cast<CUstream_st**>(stream) = top->stream;
  return cudaSuccess;
}
SPILLWAY_EXPORT cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  // During static initialization of a launch: the context may not exist yet, so only the name is settled here.
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}
SPILLWAY_EXPORT cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                                         size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
SPILLWAY_EXPORT cudaError_t CUDARTAPI __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                              void** arguments, size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel_ptsz(kernel, grid, block, arguments, shared, stream);
}
