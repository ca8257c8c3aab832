// The life of the driver and of contexts.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult initialise(RealCall<PFN_cuInit_v2000>& real, unsigned int flags) { return real(flags); }

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

CUresult destroy_context(RealCall<PFN_cuCtxDestroy_v2000>& real, CUcontext ctx) { return real(ctx); }

CUresult retain_primary_context(RealCall<PFN_cuDevicePrimaryCtxRetain_v7000>& real, CUcontext* pctx, CUdevice_v1 dev) {
  return real(pctx, dev);
}

CUresult release_primary_context(RealCall<PFN_cuDevicePrimaryCtxRelease_v7000>& real, CUdevice_v1 dev) {
  return real(dev);
}

CUresult reset_primary_context(RealCall<PFN_cuDevicePrimaryCtxReset_v7000>& real, CUdevice_v1 dev) { return real(dev); }

}  // namespace spillway::shim::handlers
