// Stream capture: what it forbids, and what it records.
#include <algorithm>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

thread_local CUstreamCaptureMode mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::vector<std::shared_ptr<Capture>>& active() {
  static auto* const all = new std::vector<std::shared_ptr<Capture>>;  // world's lock
  return *all;
}

void merge(std::vector<GraphNode*>& into, const std::vector<GraphNode*>& more) {
  for (GraphNode* node : more) {
    if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
  }
}

// Every node the given ones depend on, and they themselves.
std::unordered_set<const GraphNode*> with_dependencies(const std::vector<GraphNode*>& from) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> open(from.begin(), from.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (seen.insert(node).second) open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

CUresult begin(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, std::shared_ptr<Graph> graph,
               bool callers, std::vector<GraphNode*> tail) {
  if (stream->kind == StreamKind::legacy_default) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  auto capture = std::make_shared<Capture>();
  capture->id = world().next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  capture->graph = std::move(graph);
  capture->graph_is_callers = callers;
  capture->streams.push_back(stream.get());
  stream->capture = capture;
  stream->capture_tail = std::move(tail);
  active().push_back(std::move(capture));
  return CUDA_SUCCESS;
}

// Streams that joined and were never joined back make the graph incomplete.
bool all_joined(const Capture& capture) {
  const auto reached = with_dependencies(capture.origin->capture_tail);
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
    if (stream == capture.origin) return true;
    return std::all_of(stream->capture_tail.begin(), stream->capture_tail.end(),
                       [&](const GraphNode* node) { return reached.contains(node); });
  });
}

void end(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (Stream* stream : capture->streams) {
    stream->capture_tail.clear();
    stream->capture.reset();
  }
  std::erase(active(), capture);
}

}  // namespace

CUresult forbid_unsafe_call() {
  if (active().empty() || mode_of_thread == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : active()) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool others_matter = mode_of_thread == CU_STREAM_CAPTURE_MODE_GLOBAL;
    const bool disturbed = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                               : others_matter && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!disturbed) continue;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult forbid_on_capturing(const std::shared_ptr<Stream>& stream) {
  if (!stream->capture) return CUDA_SUCCESS;
  stream->capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult forbid_legacy_use(const Context& context, OnCapture action) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : active()) {
    const bool affected = std::any_of(capture->streams.begin(), capture->streams.end(), [&](const Stream* stream) {
      return stream->context == &context && stream->blocking();
    });
    if (!affected) continue;
    if (action == OnCapture::invalidate) capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult capture_node(Stream& stream, NodeBody body) {
  Capture& capture = *stream.capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  GraphNode& node = capture.graph->add(std::move(body), stream.capture_tail);
  stream.capture_tail = {&node};
  return CUDA_SUCCESS;
}

CUresult join_capture(const std::shared_ptr<Stream>& stream, const Event& event) {
  const auto& capture = event.capture;
  if (capture->ended) return CUDA_ERROR_INVALID_VALUE;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->kind == StreamKind::legacy_default) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (stream->capture && stream->capture != capture) {
    stream->capture->invalidated = capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!stream->capture) {
    stream->capture = capture;
    stream->capture_tail.clear();
    capture->streams.push_back(stream.get());
  }
  merge(stream->capture_tail, event.capture_tail);
  return CUDA_SUCCESS;
}

void leave_capture(Stream& stream) {
  const auto capture = stream.capture;
  if (!capture) return;
  capture->invalidated = true;
  if (capture->origin == &stream) return end(capture);
  std::erase(capture->streams, &stream);
}

namespace driver {

CUresult stream_begin_capture(CUstream handle) { return stream_begin_capture(handle, CU_STREAM_CAPTURE_MODE_GLOBAL); }

CUresult stream_begin_capture(CUstream handle, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  return begin(stream, mode, std::make_shared<Graph>(), false, {});
}

CUresult stream_begin_capture_to_graph(CUstream handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                                       const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  const auto graph = world().graphs.live.find(graph_handle);
  if (graph == world().graphs.live.end() || (count != 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> tail;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = find_node(dependencies[i]);
    if (node == nullptr || node->graph != graph->second.get()) return CUDA_ERROR_INVALID_VALUE;
    tail.push_back(node);
  }
  return begin(stream, mode, graph->second, true, std::move(tail));
}

CUresult stream_end_capture(CUstream handle, CUgraph* graph) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) {
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool joined = all_joined(*capture);
  end(capture);
  *graph = nullptr;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = handle_of(capture->graph.get());
  world().graphs.live[*graph] = capture->graph;
  return CUDA_SUCCESS;
}

CUresult stream_is_capturing(CUstream handle, CUstreamCaptureStatus* status) {
  return stream_get_capture_info(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult stream_get_capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return stream_get_capture_info(handle, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult stream_get_capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                 const CUgraphNode** dependencies, size_t* count) {
  return stream_get_capture_info(handle, status, id, graph, dependencies, nullptr, count);
}

CUresult stream_get_capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                 const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream, OnCapture::only_refuse));
  const auto& capture = stream->capture;
  *status = !capture               ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!capture || capture->invalidated) return CUDA_SUCCESS;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) {
    *graph = handle_of(capture->graph.get());
    world().graphs.live[*graph] = capture->graph;
  }
  // Valid until the stream's next call, as documented for the real one: handles are node pointers.
  if (dependencies != nullptr) *dependencies = reinterpret_cast<const CUgraphNode*>(stream->capture_tail.data());
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = stream->capture_tail.size();
  return CUDA_SUCCESS;
}

CUresult stream_update_capture_dependencies(CUstream handle, CUgraphNode* dependencies, size_t count,
                                            unsigned int flags) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (count != 0 && dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = find_node(dependencies[i]);
    if (node == nullptr || node->graph != stream->capture->graph.get()) return CUDA_ERROR_INVALID_VALUE;
    nodes.push_back(node);
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->capture_tail.clear();
  merge(stream->capture_tail, nodes);
  return CUDA_SUCCESS;
}

CUresult stream_update_capture_dependencies(CUstream handle, CUgraphNode* dependencies, const CUgraphEdgeData*,
                                            size_t count, unsigned int flags) {
  return stream_update_capture_dependencies(handle, dependencies, count, flags);
}

CUresult thread_exchange_stream_capture_mode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, mode_of_thread);
  return CUDA_SUCCESS;
}

}  // namespace driver
}  // namespace spillway::simulated
