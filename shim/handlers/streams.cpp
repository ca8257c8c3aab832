// The life of streams, and capture: launches that go into a graph do not run, and their records say so.
#include "shim/handlers.hpp"
#include "shim/launch_path.hpp"
#include "shim/pool_backing.hpp"
#include "shim/session.hpp"

namespace spillway::shim::handlers {

namespace {

CUresult capture_begun(CUresult result) {
  if (result == CUDA_SUCCESS) launch_path().captures.fetch_add(1, std::memory_order_relaxed);
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
  return real(stream);
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10000>& real, CUstream stream) {
  return capture_begun(real(stream));
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10010>& real, CUstream stream, CUstreamCaptureMode mode) {
  return capture_begun(real(stream, mode));
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCaptureToGraph_v12030>& real, CUstream stream, CUgraph graph,
                       const CUgraphNode* dependencies, const CUgraphEdgeData* edges, std::size_t count,
                       CUstreamCaptureMode mode) {
  return capture_begun(real(stream, graph, dependencies, edges, count, mode));
}

CUresult end_capture(RealCall<PFN_cuStreamEndCapture_v10000>& real, CUstream stream, CUgraph* graph) {
  // An invalidated capture ends with an error, but it ends; a stream that captures nothing ends nothing.
  const bool ends = capture_status(stream, real.per_thread()) != CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = real(stream, graph);
  if (ends) launch_path().captures.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

}  // namespace spillway::shim::handlers
