#include "tools/simulated_device/runtime/runtime.hpp"

namespace spillway::simulated::runtime {

cudaError_t stream_create(cudaStream_t* stream) { return stream_create_with_priority(stream, 0, 0); }
cudaError_t stream_create_with_flags(cudaStream_t* stream, unsigned int flags) {
  return stream_create_with_priority(stream, flags, 0);
}
cudaError_t stream_create_with_priority(cudaStream_t* stream, unsigned int flags, int priority) {
  SPILLWAY_DRIVER_CALL(cuStreamCreateWithPriority, stream, flags, priority);
}
cudaError_t stream_destroy(cudaStream_t stream) { SPILLWAY_DRIVER_CALL(cuStreamDestroy, stream); }
cudaError_t stream_synchronize(cudaStream_t stream) { SPILLWAY_DRIVER_CALL(cuStreamSynchronize, stream); }
cudaError_t stream_query(cudaStream_t stream) { SPILLWAY_DRIVER_CALL(cuStreamQuery, stream); }
cudaError_t stream_wait_event(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  SPILLWAY_DRIVER_CALL(cuStreamWaitEvent, stream, event, flags);
}
cudaError_t stream_get_flags(cudaStream_t stream, unsigned int* flags) {
  SPILLWAY_DRIVER_CALL(cuStreamGetFlags, stream, flags);
}
cudaError_t stream_get_priority(cudaStream_t stream, int* priority) {
  SPILLWAY_DRIVER_CALL(cuStreamGetPriority, stream, priority);
}
cudaError_t stream_get_id(cudaStream_t stream, unsigned long long* id) {
  SPILLWAY_DRIVER_CALL(cuStreamGetId, stream, id);
}
cudaError_t stream_add_callback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned int flags) {
  // The status argument has the same numbers in both types.
  SPILLWAY_DRIVER_CALL(cuStreamAddCallback, stream,
                       reinterpret_cast<CUstreamCallback>(reinterpret_cast<void*>(callback)), data, flags);
}

cudaError_t event_create(cudaEvent_t* event) { return event_create_with_flags(event, 0); }
cudaError_t event_create_with_flags(cudaEvent_t* event, unsigned int flags) {
  SPILLWAY_DRIVER_CALL(cuEventCreate, event, flags);
}
cudaError_t event_record(cudaEvent_t event, cudaStream_t stream) { SPILLWAY_DRIVER_CALL(cuEventRecord, event, stream); }
cudaError_t event_record_with_flags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  SPILLWAY_DRIVER_CALL(cuEventRecordWithFlags, event, stream, flags);
}
cudaError_t event_query(cudaEvent_t event) { SPILLWAY_DRIVER_CALL(cuEventQuery, event); }
cudaError_t event_synchronize(cudaEvent_t event) { SPILLWAY_DRIVER_CALL(cuEventSynchronize, event); }
cudaError_t event_destroy(cudaEvent_t event) { SPILLWAY_DRIVER_CALL(cuEventDestroy, event); }
cudaError_t event_elapsed_time(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  SPILLWAY_DRIVER_CALL(cuEventElapsedTime, milliseconds, start, end);
}

cudaError_t stream_begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  SPILLWAY_DRIVER_CALL(cuStreamBeginCapture, stream, static_cast<CUstreamCaptureMode>(mode));
}
cudaError_t stream_end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  SPILLWAY_DRIVER_CALL(cuStreamEndCapture, stream, graph);
}
cudaError_t stream_is_capturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  SPILLWAY_DRIVER_CALL(cuStreamIsCapturing, stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
}
cudaError_t stream_get_capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                    cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                    const cudaGraphEdgeData** edges, size_t* count) {
  cuuint64_t wide = 0;
  SPILLWAY_RETURN_IF_ERROR(need_context());
  if (driver()->cuStreamGetCaptureInfo == nullptr) return cudaErrorCallRequiresNewerDriver;
  const CUresult result =
      driver()->cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &wide, graph,
                                       dependencies, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  if (id != nullptr) *id = wide;
  return error_of(result);
}
cudaError_t thread_exchange_stream_capture_mode(cudaStreamCaptureMode* mode) {
  SPILLWAY_DRIVER_CALL(cuThreadExchangeStreamCaptureMode, reinterpret_cast<CUstreamCaptureMode*>(mode));
}

cudaError_t graph_create(cudaGraph_t* graph, unsigned int flags) { SPILLWAY_DRIVER_CALL(cuGraphCreate, graph, flags); }
cudaError_t graph_destroy(cudaGraph_t graph) { SPILLWAY_DRIVER_CALL(cuGraphDestroy, graph); }
cudaError_t graph_instantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  SPILLWAY_DRIVER_CALL(cuGraphInstantiateWithFlags, executable, graph, flags);
}
cudaError_t graph_instantiate_with_flags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return graph_instantiate(executable, graph, flags);
}
cudaError_t graph_launch(cudaGraphExec_t executable, cudaStream_t stream) {
  SPILLWAY_DRIVER_CALL(cuGraphLaunch, executable, stream);
}
cudaError_t graph_upload(cudaGraphExec_t executable, cudaStream_t stream) {
  SPILLWAY_DRIVER_CALL(cuGraphUpload, executable, stream);
}
cudaError_t graph_exec_destroy(cudaGraphExec_t executable) { SPILLWAY_DRIVER_CALL(cuGraphExecDestroy, executable); }
cudaError_t graph_get_nodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  SPILLWAY_DRIVER_CALL(cuGraphGetNodes, graph, nodes, count);
}
cudaError_t graph_node_get_type(cudaGraphNode_t node, cudaGraphNodeType* type) {
  SPILLWAY_DRIVER_CALL(cuGraphNodeGetType, node, reinterpret_cast<CUgraphNodeType*>(type));
}
cudaError_t graph_exec_update(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result) {
  SPILLWAY_DRIVER_CALL(cuGraphExecUpdate, executable, graph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(result));
}

}  // namespace spillway::simulated::runtime
