// The driver's graph calls: building graphs by hand, asking about them, instantiating, updating and launching them.
#include <algorithm>

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
CUresult launch_from(const Parameters& p, CUfunction function, Launch& out) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  return make_launch(function, {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes},
                     p.kernelParams, p.extra, context->device, out);
}

CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS_v1* p, Launch& out) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : launch_from(*p, p->func, out);
}

// func and kern may both name the kernel; either will do.
template <class Parameters>
CUresult launch_from_wide(const Parameters* p, Launch& out) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_from(*p, p->func != nullptr ? p->func : reinterpret_cast<CUfunction>(p->kern), out);
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

ExecutableGraph* find_executable(CUgraphExec handle) {
  const auto found = world().graphs.executables.find(handle);
  return found == world().graphs.executables.end() ? nullptr : found->second.get();
}

template <class Body>
CUresult replace_in(CUgraphExec executable, CUgraphNode node, Body body) {
  ExecutableGraph* graph = find_executable(executable);
  const GraphNode* origin = find_node(node);
  if (graph == nullptr || origin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (ExecutableNode& candidate : graph->nodes) {
    if (candidate.origin != origin || !std::holds_alternative<Body>(candidate.body)) continue;
    candidate.body = std::move(body);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_from(const CUDA_MEMCPY3D* p, CUcontext handle, CopyNode& out) {
  const Context* context = handle != nullptr ? find_context(handle) : current_context();
  if (p == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out.parameters = *p;
  SPILLWAY_RETURN_IF_FAILED(from_parameters(*p, context->device, out.copy));
  return check(out.copy);
}

CUresult fill_from(const CUDA_MEMSET_NODE_PARAMS* p, CUcontext handle, FillNode& out) {
  const Context* context = handle != nullptr ? find_context(handle) : current_context();
  if (p == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  out.parameters = *p;
  out.fill = Fill{p->dst, p->value, p->elementSize, p->width, p->height, p->pitch, context->device};
  return check(out.fill);
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

// Takes the bodies of a graph of the same shape. The origin handles move along, so that later node updates find them.
CUresult update(CUgraphExec executable, CUgraph handle, CUgraphExecUpdateResult& result) {
  ExecutableGraph* old = find_executable(executable);
  result = CU_GRAPH_EXEC_UPDATE_ERROR;
  if (old == nullptr || find_graph(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExec fresh_handle = nullptr;
  SPILLWAY_RETURN_IF_FAILED(instantiate(handle, old->flags, &fresh_handle));
  const auto fresh = world().graphs.executables[fresh_handle];
  world().graphs.executables.erase(fresh_handle);
  result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (fresh->nodes.size() != old->nodes.size()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  for (std::size_t i = 0; i < old->nodes.size(); ++i) {
    if (fresh->nodes[i].body.index() != old->nodes[i].body.index()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  // Origins stay: the program names nodes of the graph it instantiated.
  for (std::size_t i = 0; i < old->nodes.size(); ++i) old->nodes[i].body = fresh->nodes[i].body;
  result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult graph_create(CUgraph* graph, unsigned int flags) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = keep(std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

CUresult graph_destroy(CUgraph graph) { return world().graphs.live.erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

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
  SPILLWAY_RETURN_IF_FAILED(launch_from_wide(parameters, launch));
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

CUresult graph_add_child_graph_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraph child) {
  const Graph* inner = find_graph(child);
  return inner == nullptr ? CUDA_ERROR_INVALID_VALUE : add(out, graph, dependencies, count, ChildGraph{clone(*inner)});
}

CUresult graph_add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraphNodeParams* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      Launch launch;
      SPILLWAY_RETURN_IF_FAILED(launch_from_wide(&p->kernel, launch));
      return add(out, graph, dependencies, count, std::move(launch));
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return graph_add_memcpy_node(out, graph, dependencies, count, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS fill{p->memset.dst, p->memset.pitch, p->memset.value, p->memset.elementSize, p->memset.width, p->memset.height};
      return graph_add_memset_node(out, graph, dependencies, count, &fill, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS call{p->host.fn, p->host.userData};
      return graph_add_host_node(out, graph, dependencies, count, &call);
    }
    case CU_GRAPH_NODE_TYPE_EMPTY: return graph_add_empty_node(out, graph, dependencies, count);
    case CU_GRAPH_NODE_TYPE_GRAPH: return graph_add_child_graph_node(out, graph, dependencies, count, p->graph.graph);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult graph_add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData*, size_t count, CUgraphNodeParams* parameters) {
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

CUresult graph_add_dependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*, size_t count) {
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
  static constexpr CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_EMPTY, CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY,
                                              CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST, CU_GRAPH_NODE_TYPE_GRAPH};
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
  SPILLWAY_RETURN_IF_FAILED(launch_from_wide(parameters, fresh));
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

CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode* error_node, char* log, size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) *log = '\0';
  return instantiate(graph, 0, executable);
}

CUresult graph_instantiate_with_flags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  return instantiate(graph, flags, executable);
}

CUresult graph_instantiate_with_params(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = instantiate(graph, parameters->flags, executable);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult graph_exec_update(CUgraphExec executable, CUgraph graph, CUgraphNode* error_node, CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResult outcome = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  const CUresult code = update(executable, graph, outcome);
  if (error_node != nullptr) *error_node = nullptr;
  if (result != nullptr) *result = outcome;
  return code;
}

CUresult graph_exec_update(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *result = {};
  return update(executable, graph, result->result);
}

CUresult graph_exec_kernel_node_set_params(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  Launch launch;
  SPILLWAY_RETURN_IF_FAILED(launch_from(parameters, launch));
  return replace_in(executable, node, std::move(launch));
}

CUresult graph_exec_kernel_node_set_params(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  Launch launch;
  SPILLWAY_RETURN_IF_FAILED(launch_from_wide(parameters, launch));
  return replace_in(executable, node, std::move(launch));
}

CUresult graph_exec_memcpy_node_set_params(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D* parameters, CUcontext context) {
  CopyNode copy;
  SPILLWAY_RETURN_IF_FAILED(copy_from(parameters, context, copy));
  return replace_in(executable, node, copy);
}

CUresult graph_exec_memset_node_set_params(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context) {
  FillNode fill;
  SPILLWAY_RETURN_IF_FAILED(fill_from(parameters, context, fill));
  return replace_in(executable, node, fill);
}

CUresult graph_exec_get_flags(CUgraphExec executable, cuuint64_t* flags) {
  const ExecutableGraph* graph = find_executable(executable);
  if (graph == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = graph->flags;
  return CUDA_SUCCESS;
}

CUresult graph_upload(CUgraphExec executable, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  return find_executable(executable) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult graph_launch(CUgraphExec executable, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  const auto found = world().graphs.executables.find(executable);
  if (found == world().graphs.executables.end()) return CUDA_ERROR_INVALID_VALUE;
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  for (const ExecutableNode& node : found->second->nodes) enqueue_body(stream, node.body);
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec executable) {
  return world().graphs.executables.erase(executable) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace spillway::simulated::driver
