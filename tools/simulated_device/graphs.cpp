#include "tools/simulated_device/graphs.hpp"

#include <algorithm>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

// Dependencies before dependents, insertion order otherwise. Nothing when there is a cycle.
std::vector<GraphNode*> topological_order(const Graph& graph) {
  std::vector<GraphNode*> order;
  std::unordered_map<const GraphNode*, std::size_t> missing;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> dependents;
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->dependencies.size();
    for (const GraphNode* dependency : node->dependencies) dependents[dependency].push_back(node.get());
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (GraphNode* next : dependents[order[i]]) {
      if (--missing[next] == 0) order.push_back(next);
    }
  }
  if (order.size() != graph.nodes.size()) order.clear();
  return order;
}

bool flatten(const Graph& graph, std::vector<ExecutableNode>& out) {
  const auto order = topological_order(graph);
  if (order.empty() && !graph.nodes.empty()) return false;
  for (const GraphNode* node : order) {
    if (const auto* child = std::get_if<ChildGraph>(&node->body)) {
      if (!flatten(*child->graph, out)) return false;
      continue;
    }
    out.push_back({node, node->body});
  }
  return true;
}

struct RunBody {
  std::int64_t start;
  std::int64_t operator()(const EmptyNode&) const { return start; }
  std::int64_t operator()(Launch& launch) const { return run_launch(launch, start); }
  std::int64_t operator()(const CopyNode& node) const { return run_copy(node.copy, start); }
  std::int64_t operator()(const FillNode& node) const { return run_fill(node.fill, start); }
  std::int64_t operator()(const HostCall&) const { return start; }
  std::int64_t operator()(const ChildGraph&) const { return start; }
};

}  // namespace

GraphNode& Graph::add(NodeBody body, std::vector<GraphNode*> dependencies) {
  nodes.push_back(std::make_unique<GraphNode>(GraphNode{this, std::move(body), std::move(dependencies)}));
  GraphNode& node = *nodes.back();
  world().graphs.nodes[handle_of(&node)] = &node;
  return node;
}

Graph::~Graph() {
  for (const auto& node : nodes) world().graphs.nodes.erase(handle_of(node.get()));
}

Graph* find_graph(CUgraph handle) {
  const auto found = world().graphs.live.find(handle);
  return found == world().graphs.live.end() ? nullptr : found->second.get();
}

GraphNode* find_node(CUgraphNode handle) {
  const auto found = world().graphs.nodes.find(handle);
  return found == world().graphs.nodes.end() ? nullptr : found->second;
}

void enqueue_body(const std::shared_ptr<Stream>& stream, NodeBody body) {
  Operation operation;
  if (const auto* call = std::get_if<HostCall>(&body)) {
    operation.host_function = [call = *call] { call.function(call.data); };
  } else {
    auto kept = std::make_shared<NodeBody>(std::move(body));
    operation.run = [kept](std::int64_t start) { return std::visit(RunBody{start}, *kept); };
  }
  enqueue(stream, std::move(operation));
}

CUresult instantiate(CUgraph handle, std::uint64_t flags, CUgraphExec* out) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  const Graph* graph = find_graph(handle);
  if (graph == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<ExecutableGraph>();
  made->context = context;
  made->flags = flags;
  if (!flatten(*graph, made->nodes)) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraphExec>(made.get());
  world().graphs.executables[*out] = made;
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated
