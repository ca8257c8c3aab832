// Graphs: arguments are read when the executable is made, one record is written for each launch of it.
#include <vector>

#include "shim/handlers.hpp"
#include "shim/recorder.hpp"

namespace spillway::shim::handlers {

namespace {

struct KernelRead {
  policy::FunctionId function;
  std::uint64_t threads = 0;
  std::vector<Touch> touches;
  [[nodiscard]] GraphKernel view() const { return {function, threads, touches}; }
};

// CUDA_KERNEL_NODE_PARAMS v1 and v2 begin alike; only v2 may name the kernel instead of the function.
template <class Parameters>
std::optional<KernelRead> read_kernel(const void* handle, const Parameters& node) {
  if (handle == nullptr) return std::nullopt;
  const FunctionRecord* function = function_record(handle);
  if (function == nullptr) return std::nullopt;
  KernelRead read{
      function->id,
      std::uint64_t{node.gridDimX} * node.gridDimY * node.gridDimZ * node.blockDimX * node.blockDimY * node.blockDimZ,
      {}};
  read.touches.resize(function->words.size());
  const PointersFound found = read_pointers(*function, launch_path().addresses, node.kernelParams, node.extra,
                                            read.touches.data(), read.touches.size());
  read.touches.resize(found.count);
  return read;
}

const void* handle_of(const CUDA_KERNEL_NODE_PARAMS_v2& node) {
  return node.kern != nullptr ? static_cast<const void*>(node.kern) : node.func;
}

std::optional<KernelRead> read_node(CUgraphNode node) {
  if (driver().cuGraphKernelNodeGetParams_v2 != nullptr) {
    CUDA_KERNEL_NODE_PARAMS_v2 parameters{};
    if (driver().cuGraphKernelNodeGetParams_v2(node, &parameters) != CUDA_SUCCESS) return std::nullopt;
    return read_kernel(handle_of(parameters), parameters);
  }
  CUDA_KERNEL_NODE_PARAMS_v1 parameters{};
  if (driver().cuGraphKernelNodeGetParams == nullptr ||
      driver().cuGraphKernelNodeGetParams(node, &parameters) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return read_kernel(parameters.func, parameters);
}

constexpr int kDepthLimit = 16;  // graphs within graphs

void read_graph(CUgraph graph, int depth, std::vector<KernelRead>& kernels) {
  const Driver& real = driver();
  std::size_t count = 0;
  if (depth > kDepthLimit || real.cuGraphGetNodes == nullptr || real.cuGraphNodeGetType == nullptr) return;
  if (real.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return;
  std::vector<CUgraphNode> nodes(count);
  if (real.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return;
  nodes.resize(count < nodes.size() ? count : nodes.size());
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    if (real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
      if (auto kernel = read_node(node)) kernels.push_back(std::move(*kernel));
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && real.cuGraphChildGraphNodeGetGraph != nullptr) {
      CUgraph child = nullptr;
      if (real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) read_graph(child, depth + 1, kernels);
    }
  }
}

// Tells the session what is in an executable that was made from, or brought up to date with, `graph`.
CUresult graph_made(CUresult result, const CUgraphExec* executable, CUgraph graph) {
  GraphObserver* observer = launch_path().graphs.load(std::memory_order_acquire);
  if (result != CUDA_SUCCESS || observer == nullptr || executable == nullptr) return result;
  std::vector<KernelRead> kernels;
  read_graph(graph, 0, kernels);
  std::vector<GraphKernel> views;
  views.reserve(kernels.size());
  for (const KernelRead& kernel : kernels) views.push_back(kernel.view());
  observer->graph_seen(*executable, views);
  return result;
}

template <class Parameters>
CUresult kernel_set(CUresult result, CUgraphExec executable, const void* handle, const Parameters& parameters) {
  GraphObserver* observer = launch_path().graphs.load(std::memory_order_acquire);
  if (result != CUDA_SUCCESS || observer == nullptr) return result;
  if (const auto kernel = read_kernel(handle, parameters)) observer->graph_kernel_set(executable, kernel->view());
  return result;
}

}  // namespace

CUresult instantiate_graph(RealCall<PFN_cuGraphInstantiate_v10000>& real, CUgraphExec* executable, CUgraph graph,
                           CUgraphNode* error_node, char* log, std::size_t log_bytes) {
  return graph_made(real(executable, graph, error_node, log, log_bytes), executable, graph);
}

CUresult instantiate_graph_with_flags(RealCall<PFN_cuGraphInstantiateWithFlags_v11040>& real, CUgraphExec* executable,
                                      CUgraph graph, unsigned long long flags) {
  return graph_made(real(executable, graph, flags), executable, graph);
}

CUresult instantiate_graph_with_params(RealCall<PFN_cuGraphInstantiateWithParams_v12000>& real, CUgraphExec* executable,
                                       CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return graph_made(real(executable, graph, parameters), executable, graph);
}

CUresult launch_graph(RealCall<PFN_cuGraphLaunch_v10000>& real, CUgraphExec executable, CUstream stream) {
  return record_call(GraphLaunchRecord{{}, reinterpret_cast<std::uintptr_t>(executable), 0}, RecordKind::graph_launch,
                     stream, real.per_thread(), [&] { return real(executable, stream); });
}

CUresult update_graph(RealCall<PFN_cuGraphExecUpdate_v10020>& real, CUgraphExec executable, CUgraph graph,
                      CUgraphNode* error_node, CUgraphExecUpdateResult* update_result) {
  return graph_made(real(executable, graph, error_node, update_result), &executable, graph);
}

CUresult update_graph(RealCall<PFN_cuGraphExecUpdate_v12000>& real, CUgraphExec executable, CUgraph graph,
                      CUgraphExecUpdateResultInfo* information) {
  return graph_made(real(executable, graph, information), &executable, graph);
}

CUresult set_graph_kernel(RealCall<PFN_cuGraphExecKernelNodeSetParams_v10010>& real, CUgraphExec executable,
                          CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  const CUresult result = real(executable, node, parameters);
  return parameters == nullptr ? result : kernel_set(result, executable, parameters->func, *parameters);
}

CUresult set_graph_kernel(RealCall<PFN_cuGraphExecKernelNodeSetParams_v12000>& real, CUgraphExec executable,
                          CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  const CUresult result = real(executable, node, parameters);
  return parameters == nullptr ? result : kernel_set(result, executable, handle_of(*parameters), *parameters);
}

CUresult set_graph_node(RealCall<PFN_cuGraphExecNodeSetParams_v12020>& real, CUgraphExec executable, CUgraphNode node,
                        CUgraphNodeParams* parameters) {
  const CUresult result = real(executable, node, parameters);
  if (parameters == nullptr || parameters->type != CU_GRAPH_NODE_TYPE_KERNEL) return result;
  const CUDA_KERNEL_NODE_PARAMS_v3& kernel = parameters->kernel;
  return kernel_set(result, executable, kernel.kern != nullptr ? static_cast<const void*>(kernel.kern) : kernel.func,
                    kernel);
}

CUresult destroy_graph(RealCall<PFN_cuGraphExecDestroy_v10000>& real, CUgraphExec executable) {
  if (GraphObserver* observer = launch_path().graphs.load(std::memory_order_acquire)) {
    observer->graph_going(executable);
  }
  return real(executable);
}

}  // namespace spillway::shim::handlers
