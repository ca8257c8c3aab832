// Fat binaries, functions and variables as nvcc-generated code registers them, and the <<<>>> launch configurations.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>

namespace spillway::simulated::runtime {

void** register_fat_binary(const void* image);
void unregister_fat_binary(void** handle);
void register_function(void** handle, const void* host_function, const char* name);
void register_variable(void** handle, const void* host_variable, const char* name, std::size_t bytes);

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  CUstream_st* stream = nullptr;
};
// Returns 0, which tells the generated code to go on with the launch; 1 when too many are open.
unsigned push_configuration(const LaunchConfiguration& configuration);
std::optional<LaunchConfiguration> pop_configuration();

// A __device__ variable's memory, made on first use. Kernels' twins do not see it; copies to and from it work.
cudaError_t find_variable(const void* host_variable, void*& address, std::size_t& bytes);

}  // namespace spillway::simulated::runtime
