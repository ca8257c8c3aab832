// The life of the driver and of contexts. Memory ends with the context it was made in.
#include "shim/deferred_frees.hpp"
#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/pool_backing.hpp"
#include "shim/session.hpp"

namespace spillway::shim::handlers {
namespace {

// The primary context's handle, if it is alive; asking retains it, so that reference is given back at once.
CUcontext primary_context(CUdevice device) {
  const Driver& real = driver();
  unsigned flags = 0;
  int active = 0;
  CUcontext context = nullptr;
  if (real.cuDevicePrimaryCtxGetState == nullptr ||
      real.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0 ||
      real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) {
    return nullptr;
  }
  real.cuDevicePrimaryCtxRelease_v2(device);
  return context;
}

bool primary_context_alive(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return driver().cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

void forget_pools(CUcontext context) {
  managed_pools().context_ended(context);
  driver_backing().context_ended(context);
}

}  // namespace

CUresult initialise(RealCall<PFN_cuInit_v2000>& real, unsigned int flags) {
  const CUresult result = real(flags);
  if (result == CUDA_SUCCESS) Session::start();
  return result;
}

CUresult create_context(RealCall<PFN_cuCtxCreate_v2000>& real, CUcontext* pctx, unsigned int flags, CUdevice_v1 dev) {
  return real(pctx, flags, dev);
}

CUresult create_context(RealCall<PFN_cuCtxCreate_v11040>& real, CUcontext* pctx, CUexecAffinityParam* params_array,
                        int num_params, unsigned int flags, CUdevice_v1 dev) {
  return real(pctx, params_array, num_params, flags, dev);
}

CUresult create_context(RealCall<PFN_cuCtxCreate_v12050>& real, CUcontext* pctx, CUctxCreateParams* ctx_create_params,
                        unsigned int flags, CUdevice dev) {
  return real(pctx, ctx_create_params, flags, dev);
}

CUresult destroy_context(RealCall<PFN_cuCtxDestroy_v2000>& real, CUcontext ctx) {
  Session* session = Session::get();
  if (session == nullptr || ctx == nullptr) return real(ctx);
  deferred_frees().context_ends(ctx);
  const std::vector<policy::AllocationId> going = session->begin_context_end(ctx);
  const CUresult result = real(ctx);
  session->end_context_end(going, result);
  if (result == CUDA_SUCCESS) forget_pools(ctx);
  return result;
}

CUresult retain_primary_context(RealCall<PFN_cuDevicePrimaryCtxRetain_v7000>& real, CUcontext* pctx, CUdevice_v1 dev) {
  return real(pctx, dev);
}

CUresult release_primary_context(RealCall<PFN_cuDevicePrimaryCtxRelease_v7000>& real, CUdevice_v1 dev) {
  Session* session = Session::get();
  const CUcontext context = session == nullptr ? nullptr : primary_context(dev);
  const CUresult result = real(dev);
  // Only the last release ends it; which one that was is known afterwards.
  if (result != CUDA_SUCCESS || context == nullptr || primary_context_alive(dev)) return result;
  deferred_frees().context_ends(context);
  session->end_context_end(session->begin_context_end(context), CUDA_SUCCESS);
  forget_pools(context);
  return result;
}

CUresult reset_primary_context(RealCall<PFN_cuDevicePrimaryCtxReset_v7000>& real, CUdevice_v1 dev) {
  Session* session = Session::get();
  const CUcontext context = session == nullptr ? nullptr : primary_context(dev);
  if (context == nullptr) return real(dev);
  deferred_frees().context_ends(context);
  const std::vector<policy::AllocationId> going = session->begin_context_end(context);
  const CUresult result = real(dev);
  session->end_context_end(going, result);
  if (result == CUDA_SUCCESS) forget_pools(context);
  return result;
}

}  // namespace spillway::shim::handlers
