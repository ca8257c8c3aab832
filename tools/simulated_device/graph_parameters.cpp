#include "tools/simulated_device/graph_parameters.hpp"

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

template <class Parameters>
CUresult launch_of(const Parameters& p, CUfunction function, Launch& out) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  return make_launch(function,
                     {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes},
                     p.kernelParams, p.extra, context->device, out);
}

}  // namespace

CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS_v1* p, Launch& out) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : launch_of(*p, p->func, out);
}

// func and kern may both name the kernel; either will do.
CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS* p, Launch& out) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_of(*p, p->func != nullptr ? p->func : reinterpret_cast<CUfunction>(p->kern), out);
}

CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS_v3* p, Launch& out) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_of(*p, p->func != nullptr ? p->func : reinterpret_cast<CUfunction>(p->kern), out);
}

CUresult copy_from(const CUDA_MEMCPY3D* p, CUcontext handle, CopyNode& out) {
  const Context* context = handle != nullptr ? find_context(handle) : current_context();
  if (p == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out.parameters = *p;
  SPILLWAY_RETURN_IF_FAILED(from_parameters(*p, context->device, out.copy));
  return check(out.copy);
}

CUresult fill_from(const CUDA_MEMSET_NODE_PARAMS* p, CUcontext handle, FillNode& out) {
  const Context* context = handle != nullptr ? find_context(handle) : current_context();
  if (p == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  out.parameters = *p;
  out.fill = Fill{p->dst, p->value, p->elementSize, p->width, p->height, p->pitch, context->device};
  return check(out.fill);
}

}  // namespace spillway::simulated
