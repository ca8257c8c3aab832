// One kernel launch: its parameters copied, run by the kernel's host twin. World's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/host_twin.hpp"
#include "tools/simulated_device/entry_points.hpp"

namespace spillway::simulated {

struct Function;

// What a profiler knows of the call that launched it.
struct LaunchOrigin {
  std::uint64_t call = 0;        // counts launches and graph launches; those of one graph launch share it
  std::uint64_t stream = 0;      // its id
  std::uint64_t graph_node = 0;  // from 1; 0: no graph
};
std::uint64_t next_launch_call();

struct Launch {
  const void* handle = nullptr;  // CUfunction or CUkernel, as the program gave it
  Function* function = nullptr;
  kernels::LaunchGeometry geometry;
  std::vector<std::byte> storage;  // the parameters, at the kernel's offsets
  std::vector<void*> parameters;   // into storage; made by `point_parameters`
  int device = 0;
  LaunchOrigin origin;
  void point_parameters();
};

// Checks the arguments and copies them. CUDA_ERROR_NOT_FOUND, with a line on stderr, when the kernel has no twin.
CUresult make_launch(CUfunction handle, const kernels::LaunchGeometry& geometry, void** kernel_parameters, void** extra,
                     int device, Launch& out);
std::int64_t run_launch(Launch& launch, std::int64_t start);

}  // namespace spillway::simulated
