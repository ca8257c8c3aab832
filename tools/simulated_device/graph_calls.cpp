// The driver's graph calls: building graphs by hand, and asking about them.
#include <algorithm>

#include "tools/simulated_device/graph_parameters.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

CUresult nodes_of(const CUgraphNode* handles, std::size_t count, const Graph* graph, std::vector<GraphNode*>& out) {
  if (count != 0 && handles == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = find_node(handles[i]);
    if (node == nullptr || node->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    out.push_back(node);
  }
  return CUDA_SUCCESS;
}

CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, std::size_t count, NodeBody body) {
  Graph* graph = find_graph(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> before;
  SPILLWAY_RETURN_IF_FAILED(nodes_of(dependencies, count, graph, before));
  *out = handle_of(&graph->add(std::move(body), std::move(before)));
  return CUDA_SUCCESS;
}

template <class Parameters>
void give_launch(Launch& launch, Parameters& p) {
  const auto& [grid, block, shared] = launch.geometry;
  launch.point_parameters();
  p.func = reinterpret_cast<CUfunction>(const_cast<void*>(launch.handle));
  p.gridDimX = grid.x;
  p.gridDimY = grid.y;
  p.gridDimZ = grid.z;
  p.blockDimX = block.x;
  p.blockDimY = block.y;
  p.blockDimZ = block.z;
  p.sharedMemBytes = shared;
  p.kernelParams = launch.parameters.data();
  p.extra = nullptr;
}

template <class Body>
Body* body_of(CUgraphNode handle) {
  GraphNode* node = find_node(handle);
  return node == nullptr ? nullptr : std::get_if<Body>(&node->body);
}

CUresult give_nodes(const std::vector<GraphNode*>& nodes, CUgraphNode* out, std::size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? handle_of(nodes[i]) : nullptr;
  }
  *count = out == nullptr ? nodes.size() : std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

std::shared_ptr<Graph> clone(const Graph& original) {
  auto copy = std::make_shared<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const auto& node : original.nodes) twin[node.get()] = &copy->add(node->body, {});
  for (const auto& node : original.nodes) {
    for (const GraphNode* dependency : node->dependencies) twin[node.get()]->dependencies.push_back(twin[dependency]);
  }
  return copy;
}

CUgraph keep(std::shared_ptr<Graph> graph) {
  const CUgraph handle = handle_of(graph.get());
  world().graphs.live[handle] = std::move(graph);
  return handle;
}

}  // namespace

CUresult graph_create(CUgraph* graph, unsigned int flags) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = keep(std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

CUresult graph_destroy(CUgraph graph) {
  return world().graphs.live.erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_clone(CUgraph* out, CUgraph handle) {
  const Graph* graph = find_graph(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = keep(clone(*graph));
  return CUDA_SUCCESS;
}

CUresult graph_add_kernel_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  Launch launch;
  SPILLWAY_RETURN_IF_FAILED(launch_from(parameters, launch));
  return add(out, graph, dependencies, count, std::move(launch));
}

CUresult graph_add_kernel_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               const CUDA_KERNEL_NODE_PARAMS* parameters) {
  Launch launch;
  SPILLWAY_RETURN_IF_FAILED(launch_from(parameters, launch));
  return add(out, graph, dependencies, count, std::move(launch));
}

CUresult graph_add_memcpy_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               const CUDA_MEMCPY3D* parameters, CUcontext context) {
  CopyNode node;
  SPILLWAY_RETURN_IF_FAILED(copy_from(parameters, context, node));
  return add(out, graph, dependencies, count, node);
}

CUresult graph_add_memset_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context) {
  FillNode node;
  SPILLWAY_RETURN_IF_FAILED(fill_from(parameters, context, node));
  return add(out, graph, dependencies, count, node);
}

CUresult graph_add_host_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                             const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, HostCall{parameters->fn, parameters->userData});
}

CUresult graph_add_empty_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  return add(out, graph, dependencies, count, EmptyNode{});
}

CUresult graph_add_child_graph_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                    CUgraph child) {
  const Graph* inner = find_graph(child);
  return inner == nullptr ? CUDA_ERROR_INVALID_VALUE : add(out, graph, dependencies, count, ChildGraph{clone(*inner)});
}

CUresult graph_add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                        CUgraphNodeParams* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      Launch launch;
      SPILLWAY_RETURN_IF_FAILED(launch_from(&p->kernel, launch));
      return add(out, graph, dependencies, count, std::move(launch));
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return graph_add_memcpy_node(out, graph, dependencies, count, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS fill{p->memset.dst,         p->memset.pitch, p->memset.value,
                                         p->memset.elementSize, p->memset.width, p->memset.height};
      return graph_add_memset_node(out, graph, dependencies, count, &fill, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS call{p->host.fn, p->host.userData};
      return graph_add_host_node(out, graph, dependencies, count, &call);
    }
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return graph_add_empty_node(out, graph, dependencies, count);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return graph_add_child_graph_node(out, graph, dependencies, count, p->graph.graph);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult graph_add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData*,
                        size_t count, CUgraphNodeParams* parameters) {
  return graph_add_node(out, graph, dependencies, count, parameters);
}

CUresult graph_add_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  const Graph* graph = find_graph(handle);
  std::vector<GraphNode*> before;
  std::vector<GraphNode*> after;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SPILLWAY_RETURN_IF_FAILED(nodes_of(from, count, graph, before));
  SPILLWAY_RETURN_IF_FAILED(nodes_of(to, count, graph, after));
  for (std::size_t i = 0; i < count; ++i) after[i]->dependencies.push_back(before[i]);
  return CUDA_SUCCESS;
}

CUresult graph_add_dependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*,
                                size_t count) {
  return graph_add_dependencies(graph, from, to, count);
}

CUresult graph_get_nodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  const Graph* graph = find_graph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes) nodes.push_back(node.get());
  return give_nodes(nodes, out, count);
}

CUresult graph_get_root_nodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  const Graph* graph = find_graph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) nodes.push_back(node.get());
  }
  return give_nodes(nodes, out, count);
}

CUresult graph_get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return graph_get_edges(handle, from, to, nullptr, count);
}

CUresult graph_get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  const Graph* graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> starts;
  std::vector<GraphNode*> ends;
  for (const auto& node : graph->nodes) {
    for (GraphNode* dependency : node->dependencies) {
      starts.push_back(dependency);
      ends.push_back(node.get());
    }
  }
  std::size_t room = *count;
  if (data != nullptr) std::fill_n(data, std::min(room, starts.size()), CUgraphEdgeData{});
  SPILLWAY_RETURN_IF_FAILED(give_nodes(starts, from, &room));
  return give_nodes(ends, to, count);
}

CUresult graph_node_get_dependencies(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  const GraphNode* node = find_node(handle);
  return node == nullptr ? CUDA_ERROR_INVALID_VALUE : give_nodes(node->dependencies, out, count);
}

CUresult graph_node_get_dependencies(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  if (data != nullptr && count != nullptr) std::fill_n(data, *count, CUgraphEdgeData{});
  return graph_node_get_dependencies(handle, out, count);
}

CUresult graph_node_get_type(CUgraphNode handle, CUgraphNodeType* type) {
  const GraphNode* node = find_node(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static constexpr CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_EMPTY,  CU_GRAPH_NODE_TYPE_KERNEL,
                                              CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                              CU_GRAPH_NODE_TYPE_HOST,   CU_GRAPH_NODE_TYPE_GRAPH};
  *type = types[node->body.index()];
  return CUDA_SUCCESS;
}

CUresult graph_destroy_node(CUgraphNode handle) {
  GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph& graph = *node->graph;
  for (const auto& other : graph.nodes) std::erase(other->dependencies, node);
  world().graphs.nodes.erase(handle);
  std::erase_if(graph.nodes, [&](const auto& candidate) { return candidate.get() == node; });
  return CUDA_SUCCESS;
}

CUresult graph_kernel_node_get_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  Launch* launch = body_of<Launch>(node);
  if (launch == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  give_launch(*launch, *parameters);
  return CUDA_SUCCESS;
}

CUresult graph_kernel_node_get_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters) {
  Launch* launch = body_of<Launch>(node);
  if (launch == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  give_launch(*launch, *parameters);
  parameters->kern = reinterpret_cast<CUkernel>(parameters->func);  // measured: both name the kernel
  parameters->ctx = handle_of(current_context());
  return CUDA_SUCCESS;
}

CUresult graph_kernel_node_set_params(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  Launch* launch = body_of<Launch>(node);
  if (launch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_from(parameters, *launch);
}

CUresult graph_kernel_node_set_params(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  Launch* launch = body_of<Launch>(node);
  if (launch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Launch fresh;
  SPILLWAY_RETURN_IF_FAILED(launch_from(parameters, fresh));
  *launch = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult graph_memcpy_node_get_params(CUgraphNode node, CUDA_MEMCPY3D* parameters) {
  const CopyNode* copy = body_of<CopyNode>(node);
  if (copy == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *parameters = copy->parameters;
  return CUDA_SUCCESS;
}

CUresult graph_memset_node_get_params(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* parameters) {
  const FillNode* fill = body_of<FillNode>(node);
  if (fill == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *parameters = fill->parameters;
  return CUDA_SUCCESS;
}

CUresult graph_host_node_get_params(CUgraphNode node, CUDA_HOST_NODE_PARAMS* parameters) {
  const HostCall* call = body_of<HostCall>(node);
  if (call == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *parameters = {call->function, call->data};
  return CUDA_SUCCESS;
}

CUresult graph_child_graph_node_get_graph(CUgraphNode node, CUgraph* graph) {
  const ChildGraph* child = body_of<ChildGraph>(node);
  if (child == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = keep(child->graph);
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated::driver
