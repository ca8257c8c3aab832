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

void settle(const Captures::Taken& captures, bool captured) {
  open_captures().settle(captures, captured ? Captures::Now::captured : Captures::Now::not_captured);
}

template <class Real, class... Rest>
CUresult begin(Real& real, CUstream stream, Rest... rest) {
  const Captures::Taken capture = open_captures().begin({stream_word(stream, real.per_thread()), context_of(stream)});
  const CUresult result = real(stream, rest...);
  settle(capture, result == CUDA_SUCCESS);
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
  settle(captures, result != CUDA_SUCCESS);
  return result;
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10000>& real, CUstream stream) { return begin(real, stream); }

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10010>& real, CUstream stream, CUstreamCaptureMode mode) {
  return begin(real, stream, mode);
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCaptureToGraph_v12030>& real, CUstream stream, CUgraph graph,
                       const CUgraphNode* dependencies, const CUgraphEdgeData* edges, std::size_t count,
                       CUstreamCaptureMode mode) {
  return begin(real, stream, graph, dependencies, edges, count, mode);
}

CUresult end_capture(RealCall<PFN_cuStreamEndCapture_v10000>& real, CUstream stream, CUgraph* graph) {
  const Captures::Taken captures = open_captures().take(stream_word(stream, real.per_thread()));
  const CUresult result = real(stream, graph);
  // An invalidated capture ends with an error, but it ends; another thread's goes on.
  settle(captures,
         result != CUDA_SUCCESS && capture_status(stream, real.per_thread()) != CU_STREAM_CAPTURE_STATUS_NONE);
  return result;
}

}  // namespace spillway::shim::handlers
