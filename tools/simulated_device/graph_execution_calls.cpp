// The driver's calls on executable graphs: instantiating, updating, launching.
#include "tools/simulated_device/graph_parameters.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

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

CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode* error_node, char* log,
                           size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) *log = '\0';
  return instantiate(graph, 0, executable);
}

CUresult graph_instantiate_with_flags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  return instantiate(graph, flags, executable);
}

CUresult graph_instantiate_with_params(CUgraphExec* executable, CUgraph graph,
                                       CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = instantiate(graph, parameters->flags, executable);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult graph_exec_update(CUgraphExec executable, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* result) {
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

CUresult graph_exec_kernel_node_set_params(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  Launch launch;
  SPILLWAY_RETURN_IF_FAILED(launch_from(parameters, launch));
  return replace_in(executable, node, std::move(launch));
}

CUresult graph_exec_kernel_node_set_params(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  Launch launch;
  SPILLWAY_RETURN_IF_FAILED(launch_from(parameters, launch));
  return replace_in(executable, node, std::move(launch));
}

CUresult graph_exec_memcpy_node_set_params(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D* parameters,
                                           CUcontext context) {
  CopyNode copy;
  SPILLWAY_RETURN_IF_FAILED(copy_from(parameters, context, copy));
  return replace_in(executable, node, copy);
}

CUresult graph_exec_memset_node_set_params(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context) {
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
  LaunchOrigin origin{next_launch_call(), stream->id, 0};
  for (const ExecutableNode& node : found->second->nodes) {
    NodeBody body = node.body;
    ++origin.graph_node;
    if (auto* launch = std::get_if<Launch>(&body)) launch->origin = origin;
    enqueue_body(stream, std::move(body));
  }
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec executable) {
  return world().graphs.executables.erase(executable) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace spillway::simulated::driver
