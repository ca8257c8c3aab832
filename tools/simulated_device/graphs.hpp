// Graphs, executable graphs, and stream capture. World's lock held.
//
// Capture rules (measured, and as the toolkit documents them): a call that a capture forbids fails and invalidates the
// capture; which calls are "unsafe" for a thread depends on its capture mode (cuThreadExchangeStreamCaptureMode).
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tools/simulated_device/copies.hpp"
#include "tools/simulated_device/launch.hpp"
#include "tools/simulated_device/streams.hpp"

namespace spillway::simulated {

struct Graph;

struct HostCall {
  CUhostFn function = nullptr;
  void* data = nullptr;
};
struct CopyNode {
  CUDA_MEMCPY3D parameters{};
  Copy copy;
};
struct FillNode {
  CUDA_MEMSET_NODE_PARAMS parameters{};
  Fill fill;
};
struct EmptyNode {};
struct ChildGraph {
  std::shared_ptr<Graph> graph;
};
using NodeBody = std::variant<EmptyNode, Launch, CopyNode, FillNode, HostCall, ChildGraph>;

struct GraphNode {
  Graph* graph = nullptr;
  NodeBody body;
  std::vector<GraphNode*> dependencies;
};

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  GraphNode& add(NodeBody body, std::vector<GraphNode*> dependencies);
};

struct ExecutableNode {
  const GraphNode* origin = nullptr;  // the node's handle in the graph it came from
  NodeBody body;
};

struct ExecutableGraph {
  Context* context = nullptr;
  std::uint64_t flags = 0;
  std::vector<ExecutableNode> nodes;  // topological order, child graphs flattened
};

struct Graphs {
  std::unordered_map<CUgraph, std::shared_ptr<Graph>> live;
  std::unordered_map<CUgraphNode, GraphNode*> nodes;
  std::unordered_map<CUgraphExec, std::shared_ptr<ExecutableGraph>> executables;
};

struct Capture {
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  bool invalidated = false;
  bool ended = false;
  std::shared_ptr<Graph> graph;
  bool graph_is_callers = false;  // cuStreamBeginCaptureToGraph
  std::vector<Stream*> streams;   // origin, and those that joined through events
};

// A call that is unsafe while some capture runs: fails and spoils the captures it would disturb.
CUresult forbid_unsafe_call();
// A call that makes no sense on a capturing stream (synchronize, query, prefetch).
CUresult forbid_on_capturing(const std::shared_ptr<Stream>& stream);
// Work on the legacy stream while a blocking stream of the context captures.
CUresult forbid_legacy_use(const Context& context, OnCapture action);

// Adds what would have been enqueued; returns the capture's error when it is invalidated already.
CUresult capture_node(Stream& stream, NodeBody body);

// A stream waits for an event recorded in a capture: it joins that capture, or is refused.
CUresult join_capture(const std::shared_ptr<Stream>& stream, const Event& event);

// Before a stream ends. The capture that began on it ends with it; one that it joined cannot end well any more.
void leave_capture(Stream& stream);

CUresult instantiate(CUgraph graph, std::uint64_t flags, CUgraphExec* out);
void enqueue_body(const std::shared_ptr<Stream>& stream, NodeBody body);
Graph* find_graph(CUgraph handle);
GraphNode* find_node(CUgraphNode handle);
inline CUgraph handle_of(Graph* graph) { return reinterpret_cast<CUgraph>(graph); }
inline CUgraphNode handle_of(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }

}  // namespace spillway::simulated
