// Kernel launches. All forms come down to one LaunchCall; attributes reach the driver unchanged.
#include "shim/handlers.hpp"
#include "shim/recorder.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim::handlers {

namespace {

std::uint64_t product(unsigned x, unsigned y, unsigned z) { return std::uint64_t{x} * y * z; }

}  // namespace

CUresult launch_kernel(RealCall<PFN_cuLaunchKernel_v4000>& real, CUfunction function, unsigned grid_x, unsigned grid_y,
                       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream stream, void** parameters, void** extra) {
  const LaunchCall call{function,   product(grid_x, grid_y, grid_z) * product(block_x, block_y, block_z),
                        parameters, extra,
                        stream,     real.per_thread()};
  return record_launch(call, [&] {
    return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
  });
}

CUresult launch_kernel_ex(RealCall<PFN_cuLaunchKernelEx_v11060>& real, const CUlaunchConfig* config,
                          CUfunction function, void** parameters, void** extra) {
  if (config == nullptr) return real(config, function, parameters, extra);
  const LaunchCall call{function,
                        product(config->gridDimX, config->gridDimY, config->gridDimZ) *
                            product(config->blockDimX, config->blockDimY, config->blockDimZ),
                        parameters,
                        extra,
                        config->hStream,
                        real.per_thread()};
  return record_launch(call, [&] { return real(config, function, parameters, extra); });
}

CUresult launch_cooperative(RealCall<PFN_cuLaunchCooperativeKernel_v9000>& real, CUfunction function, unsigned grid_x,
                            unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, CUstream stream, void** parameters) {
  const LaunchCall call{function,   product(grid_x, grid_y, grid_z) * product(block_x, block_y, block_z),
                        parameters, nullptr,
                        stream,     real.per_thread()};
  return record_launch(call, [&] {
    return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters);
  });
}

// One call, several launches: each becomes a record once the call was accepted (the arguments are the program's until
// it returns).
CUresult launch_cooperative_multi_device(RealCall<PFN_cuLaunchCooperativeKernelMultiDevice_v9000>& real,
                                         CUDA_LAUNCH_PARAMS* launches, unsigned count, unsigned flags) {
  const CUresult result = real(launches, count, flags);
  if (result != CUDA_SUCCESS || launches == nullptr) return result;
  for (unsigned i = 0; i < count; ++i) {
    const CUDA_LAUNCH_PARAMS& one = launches[i];
    const LaunchCall call{
        one.function,
        product(one.gridDimX, one.gridDimY, one.gridDimZ) * product(one.blockDimX, one.blockDimY, one.blockDimZ),
        one.kernelParams,
        nullptr,
        one.hStream,
        real.per_thread()};
    record_launch<Forwarding::not_made_here>(call, [] { return CUDA_SUCCESS; });
  }
  return result;
}

namespace {

// The launches of CUDA 2: arguments were set one by one before, by calls that say neither kind nor meaning.
template <class Forward>
CUresult launch_with_unknown_arguments(CUfunction function, std::uint64_t blocks, CUstream stream, bool per_thread,
                                       const Forward& forward) {
  const CUresult result = forward();
  if (result != CUDA_SUCCESS || !launch_path().recording.load(std::memory_order_relaxed)) return result;
  const FunctionRecord* known = function_record(function);
  EventRing* ring = thread_ring(this_thread);
  if (known == nullptr || ring == nullptr) return result;
  FunctionRecord bare;
  bare.id = known->id;
  const LaunchCall call{function, blocks, nullptr, nullptr, stream, per_thread};
  if (LaunchRecord* record = begin_launch(ring, bare, call)) {
    if ((wanted_events(record->header) & kMarksWanted) != 0) mark_record(*record, call);
    publish(ring, record->header);
  }
  return result;
}

}  // namespace

CUresult launch_unknown_arguments(RealCall<PFN_cuLaunch_v2000>& real, CUfunction function) {
  return launch_with_unknown_arguments(function, 1, nullptr, real.per_thread(), [&] { return real(function); });
}

CUresult launch_unknown_arguments(RealCall<PFN_cuLaunchGrid_v2000>& real, CUfunction function, int width, int height) {
  return launch_with_unknown_arguments(function, static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height),
                                       nullptr, real.per_thread(), [&] { return real(function, width, height); });
}

CUresult launch_unknown_arguments(RealCall<PFN_cuLaunchGridAsync_v2000>& real, CUfunction function, int width,
                                  int height, CUstream stream) {
  return launch_with_unknown_arguments(function, static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height),
                                       stream, real.per_thread(),
                                       [&] { return real(function, width, height, stream); });
}

}  // namespace spillway::shim::handlers
