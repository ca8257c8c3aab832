// The life of streams, and capture.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult destroy_stream(RealCall<PFN_cuStreamDestroy_v2000>& real, CUstream h_stream) { return real(h_stream); }

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10000>& real, CUstream h_stream) { return real(h_stream); }

CUresult begin_capture(RealCall<PFN_cuStreamBeginCapture_v10010>& real, CUstream h_stream, CUstreamCaptureMode mode) {
  return real(h_stream, mode);
}

CUresult begin_capture(RealCall<PFN_cuStreamBeginCaptureToGraph_v12030>& real, CUstream h_stream, CUgraph h_graph,
                       const CUgraphNode* dependencies, const CUgraphEdgeData* dependency_data, size_t num_dependencies,
                       CUstreamCaptureMode mode) {
  return real(h_stream, h_graph, dependencies, dependency_data, num_dependencies, mode);
}

CUresult end_capture(RealCall<PFN_cuStreamEndCapture_v10000>& real, CUstream h_stream, CUgraph* ph_graph) {
  return real(h_stream, ph_graph);
}

}  // namespace spillway::shim::handlers
