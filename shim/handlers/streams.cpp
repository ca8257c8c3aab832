// The life of streams, and capture: launches that go into a graph do not run, and their records say so.
#include "shim/captures.hpp"
#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/launch_path.hpp"
#include "shim/pool_backing.hpp"
#include "shim/session.hpp"

namespace spillway::shim::handlers {

namespace {

CUcontext context_of(CUstream stream) {
  CUcontext context = nullptr;
  const auto ask = driver().cuStreamGetCtx;
  const bool special = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (special || ask == nullptr || ask(stream, &context) != CUDA_SUCCESS) return current_context();
  return context;
}

CUresult capture_begun(CUresult result, CUstream stream, bool per_thread) {
  if (result == CUDA_SUCCESS) open_captures().began({stream_word(stream, per_thread), context_of(stream)});
  return result;
}

}  // namespace

CUresult destroy_stream(RealCall<PFN_cuStreamDestroy_v2000>& real, CUstream stream) {
  if (Session* session = Session::get(); session != nullptr && stream != nullptr) {
    session->stream_going(stream);
    const StreamKey key{reinterpret_cast<std::uintptr_t>(stream)};
    managed_pools().stream_gone(key);
    driver_backing().stream_gone(key);
  }
  const Captures::Taken captures = open_captures().take(stream_word(stream, false));
  const CUresult result = real(stream);
  if (result != CUDA_SUCCESS) open_captures().put_back(captures);
  return result;
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10000>& real, CUstream stream) {
  return capture_begun(real(stream), stream, real.per_thread());
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10010>& real, CUstream stream, CUstreamCaptureMode mode) {
  return capture_begun(real(stream, mode), stream, real.per_thread());
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCaptureToGraph_v12030>& real, CUstream stream, CUgraph graph,
                       const CUgraphNode* dependencies, const CUgraphEdgeData* edges, std::size_t count,
                       CUstreamCaptureMode mode) {
  return capture_begun(real(stream, graph, dependencies, edges, count, mode), stream, real.per_thread());
}

CUresult end_capture(RealCall<PFN_cuStreamEndCapture_v10000>& real, CUstream stream, CUgraph* graph) {
  const Captures::Taken captures = open_captures().take(stream_word(stream, real.per_thread()));
  const CUresult result = real(stream, graph);
  // An invalidated capture ends with an error, but it ends; another thread's goes on.
  if (result != CUDA_SUCCESS && capture_status(stream, real.per_thread()) != CU_STREAM_CAPTURE_STATUS_NONE)
    open_captures().put_back(captures);
  return result;
}

}  // namespace spillway::shim::handlers
