// Host twins: the same kernel in plain C++, for the simulated device. Each twin has the kernel's name (mangled, as the
// fatbin registers it), computes the same result, and declares the memory it touches, so that residency can be
// simulated.
//
// A twin library is a shared object with host twins linked in; the simulated driver loads those named in
// SPILLWAY_SIMULATED_KERNELS (colon-separated) and looks kernels up by name. A kernel without a twin fails to launch
// with CUDA_ERROR_NOT_FOUND, never silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway::kernels {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchGeometry {
  Dim3 grid;
  Dim3 block;
  unsigned shared_bytes = 0;
};

// One stretch of device memory a launch touches. `passes` is how often its bytes cross the link when they stay on the
// host (1 for a stream, more for tiled re-reads, below 1 for sparse access).
struct Access {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool writes = false;
  float passes = 1.0F;
};

struct HostTwin {
  const char* name;                              // mangled kernel name
  std::span<const std::size_t> parameter_sizes;  // bytes of each parameter, in order
  std::span<const std::size_t> parameter_offsets;
  // Computes the launch. `parameters[i]` points at parameter i, as cuLaunchKernel's kernelParams. Runs once per launch.
  void (*run)(const LaunchGeometry& geometry, void* const* parameters);
  // Says what `run` touches, before it runs.
  void (*accesses)(const LaunchGeometry& geometry, void* const* parameters, std::vector<Access>& out);
  double flops_per_thread = 0;  // for the virtual clock
};

// Each twin library exports this: all its twins.
extern "C" std::size_t spillway_host_twins(const HostTwin** first);
using HostTwinsFunction = std::size_t (*)(const HostTwin** first);

}  // namespace spillway::kernels
