#include "tools/simulated_device/launch.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/copies.hpp"
#include "tools/simulated_device/costs.hpp"
#include "tools/simulated_device/observers.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

CUresult check_geometry(const kernels::LaunchGeometry& geometry, const Function& function) {
  const auto& [grid, block, shared] = geometry;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (grid.x > 2147483647U || grid.y > 65535 || grid.z > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.x * block.y * block.z > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  return shared <= static_cast<unsigned>(function.max_dynamic_shared) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct Packed {
  const void* buffer = nullptr;
  std::size_t bytes = 0;
};

CUresult read_extra(void** extra, Packed& packed) {
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      packed.buffer = extra[1];
    } else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      packed.bytes = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return packed.buffer != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

std::size_t storage_bytes(const kernels::HostTwin& twin) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < twin.parameter_sizes.size(); ++i) {
    bytes = std::max(bytes, twin.parameter_offsets[i] + twin.parameter_sizes[i]);
  }
  return bytes;
}

// Touches what the twin says it touches. False when that lies outside live memory.
bool touch_accesses(const std::vector<kernels::Access>& accesses, int device, Touch& total) {
  for (const kernels::Access& access : accesses) {
    const auto kind = access.writes ? AccessKind::write : AccessKind::read;
    bool accessible = true;
    const bool inside =
        for_each_piece(access.address, access.bytes, [&](Allocation& piece, std::uint64_t start, std::uint64_t bytes) {
          accessible = accessible && piece.accessible;
          Touch touch;
          if (piece.kind == MemoryKind::managed) {
            touch = touch_managed(piece, start, bytes, device, kind);
          } else if (piece.kind == MemoryKind::pinned || piece.kind == MemoryKind::registered || piece.on_host) {
            touch.remote_bytes = bytes;
            world().statistics.remote_bytes += bytes;
          } else {
            touch.local_bytes = bytes;
          }
          const auto crossing =
              static_cast<std::uint64_t>(static_cast<double>(touch.remote_bytes) * static_cast<double>(access.passes));
          world().statistics.remote_bytes += crossing - touch.remote_bytes;
          touch.remote_bytes = crossing;
          total += touch;
        });
    if (!inside || !accessible) {
      std::fprintf(stderr, "simulated device: a kernel touches 0x%llx (%llu bytes), which is not live device memory\n",
                   static_cast<unsigned long long>(access.address), static_cast<unsigned long long>(access.bytes));
      return false;
    }
  }
  return true;
}

}  // namespace

std::uint64_t next_launch_call() {
  static std::uint64_t calls = 0;  // world's lock
  return ++calls;
}

void Launch::point_parameters() {
  parameters.clear();
  for (const std::size_t offset : function->twin->parameter_offsets) parameters.push_back(storage.data() + offset);
}

CUresult make_launch(CUfunction handle, const kernels::LaunchGeometry& geometry, void** kernel_parameters, void** extra,
                     int device, Launch& out) {
  Function* function = find_function(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (kernel_parameters != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  SPILLWAY_RETURN_IF_FAILED(check_geometry(geometry, *function));
  if (function->twin == nullptr) {
    if (!std::exchange(function->said, true)) {
      std::fprintf(stderr,
                   "simulated device: kernel %s has no host twin; put a twin library in SPILLWAY_SIMULATED_KERNELS "
                   "(tools/simulated_device/README.md, A twin library)\n",
                   function->name.c_str());
    }
    return CUDA_ERROR_NOT_FOUND;
  }
  const kernels::HostTwin& twin = *function->twin;
  out = Launch{handle, function, geometry, std::vector<std::byte>(storage_bytes(twin)), {}, device, {}};
  if (extra != nullptr) {
    Packed packed;
    SPILLWAY_RETURN_IF_FAILED(read_extra(extra, packed));
    if (packed.bytes < out.storage.size()) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out.storage.data(), packed.buffer, out.storage.size());
  } else if (!twin.parameter_sizes.empty()) {
    if (kernel_parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < twin.parameter_sizes.size(); ++i) {
      if (kernel_parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(out.storage.data() + twin.parameter_offsets[i], kernel_parameters[i], twin.parameter_sizes[i]);
    }
  }
  out.point_parameters();
  return CUDA_SUCCESS;
}

std::int64_t run_launch(Launch& launch, std::int64_t start) {
  World& w = world();
  launch.point_parameters();
  const kernels::HostTwin& twin = *launch.function->twin;
  std::vector<kernels::Access> accesses;
  twin.accesses(launch.geometry, launch.parameters.data(), accesses);
  Touch touch;
  if (!touch_accesses(accesses, launch.device, touch)) {
    w.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    return start;
  }
  twin.run(launch.geometry, launch.parameters.data());
  ++w.statistics.launches;
  ++w.statistics.launches_by_name[launch.function->name];

  Device& card = w.devices[static_cast<std::size_t>(launch.device)];
  const auto& [grid, block, shared] = launch.geometry;
  const double threads = 1.0 * grid.x * grid.y * grid.z * block.x * block.y * block.z;
  const auto arithmetic = costs::at(threads * twin.flops_per_thread, costs::kFloatingPoint);
  const std::int64_t begin = std::max(start + costs::kLaunch, card.compute_free);
  const std::int64_t end = begin + std::max(arithmetic, cost_of(touch));
  card.compute_free = end;
  const unsigned grid_size[3] = {grid.x, grid.y, grid.z};
  const unsigned block_size[3] = {block.x, block.y, block.z};
  observe_kernel(launch.function->name.c_str(), begin, end, launch.device, launch.origin, grid_size, block_size);
  return end;
}

namespace driver {
namespace {

CUresult submit(CUfunction function, const kernels::LaunchGeometry& geometry, CUstream handle, void** parameters,
                void** extra) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  Launch launch;
  SPILLWAY_RETURN_IF_FAILED(make_launch(function, geometry, parameters, extra, stream->context->device, launch));
  if (stream->capture) return capture_node(*stream, std::move(launch));
  launch.origin = {next_launch_call(), stream->id, 0};
  enqueue_body(stream, std::move(launch));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult launch_kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                       CUstream stream, void** parameters, void** extra) {
  return submit(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, parameters, extra);
}

CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return submit(function,
                {{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 config->sharedMemBytes},
                config->hStream, parameters, extra);
}

CUresult launch_cooperative_kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                   unsigned int shared, CUstream stream, void** parameters) {
  return submit(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, parameters, nullptr);
}

}  // namespace driver
}  // namespace spillway::simulated
