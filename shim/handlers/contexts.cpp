// The life of the driver and of contexts. Memory ends with the context it was made in.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "shim/captures.hpp"
#include "shim/deferred_frees.hpp"
#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/launch_timer.hpp"
#include "shim/pool_backing.hpp"
#include "shim/progress_marks.hpp"
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

// The program's references to primary contexts, of which the last ends one. The lock is held across the driver's calls,
// else the context that another thread makes right after would be taken for the one that ended.
struct PrimaryContexts {
  std::mutex mutex;
  std::map<CUdevice, int> references;
};
PrimaryContexts& primary_contexts() {
  static auto* const all = new PrimaryContexts;
  return *all;
}

// All that is known of a context, from just before the driver ends it; what it did not end is known again.
class ContextEnd {
 public:
  ContextEnd(Session& session, CUcontext context) : session_(session), context_(context) {
    deferred_frees().context_ends(context);
    pools_ = managed_pools().begin_context_end(context);
    events_ = driver_backing().begin_context_end(context);
    allocations_ = session.begin_context_end(context);
    launch_timer().begin_context_end(context);
    progress_marks().begin_context_end(context);
    captures_ = open_captures().take_of(context);
  }
  void done(CUresult result) {
    open_captures().settle(captures_, result == CUDA_SUCCESS ? Captures::Now::not_captured : Captures::Now::captured);
    progress_marks().end_context_end(context_, result);
    launch_timer().end_context_end(context_, result);
    session_.end_context_end(allocations_, result);
    driver_backing().end_context_end(context_, events_, result);
    managed_pools().end_context_end(std::move(pools_), result);
  }

 private:
  Session& session_;
  const CUcontext context_;
  ManagedPools::EndingContext pools_;
  std::shared_ptr<DriverBacking::Events> events_;
  std::vector<policy::AllocationId> allocations_;
  Captures::Taken captures_;
};

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
  ContextEnd end(*session, ctx);
  const CUresult result = real(ctx);
  end.done(result);
  return result;
}

CUresult retain_primary_context(RealCall<PFN_cuDevicePrimaryCtxRetain_v7000>& real, CUcontext* pctx, CUdevice_v1 dev) {
  if (Session::get() == nullptr) return real(pctx, dev);
  const std::unique_lock lock(primary_contexts().mutex);
  const CUresult result = real(pctx, dev);
  if (result == CUDA_SUCCESS) ++primary_contexts().references[dev];
  return result;
}

CUresult release_primary_context(RealCall<PFN_cuDevicePrimaryCtxRelease_v7000>& real, CUdevice_v1 dev) {
  Session* session = Session::get();
  if (session == nullptr) return real(dev);
  const std::unique_lock lock(primary_contexts().mutex);
  int& references = primary_contexts().references[dev];
  const CUcontext context = primary_context(dev);
  std::optional<ContextEnd> end;
  if (context != nullptr && references <= 1) end.emplace(*session, context);
  const CUresult result = real(dev);
  if (result == CUDA_SUCCESS) references = std::max(references - 1, 0);
  const bool ended = result == CUDA_SUCCESS && context != nullptr && !primary_context_alive(dev);
  // Whoever holds a reference that we were not told of keeps the context; whoever gave one back, ends it.
  if (ended && !end) end.emplace(*session, context);
  if (end) end->done(ended ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
  return result;
}

CUresult reset_primary_context(RealCall<PFN_cuDevicePrimaryCtxReset_v7000>& real, CUdevice_v1 dev) {
  Session* session = Session::get();
  const CUcontext context = session == nullptr ? nullptr : primary_context(dev);
  if (context == nullptr) return real(dev);
  ContextEnd end(*session, context);
  const CUresult result = real(dev);
  end.done(result);
  return result;
}

}  // namespace spillway::shim::handlers
