#include "shim/window_kernels.hpp"

#include <algorithm>

namespace spillway::shim {

using policy::Nanoseconds;

void WindowKernels::add(std::span<const KernelRecord> records) {
  for (const KernelRecord& record : records) {
    if (!record.of_graph) {
      alone_.push_back(record);
      continue;
    }
    Graph& graph = graphs_[record.correlation];
    graph.start = graph.kernels == 0 ? record.start : std::min(graph.start, record.start);
    graph.end = std::max(graph.end, record.end);
    ++graph.kernels;
  }
}

void WindowKernels::clear() {
  alone_.clear();
  graphs_.clear();
}

std::vector<policy::SeenKernel> WindowKernels::launches(std::int64_t clock_offset) const {
  std::vector<policy::SeenKernel> seen;
  seen.reserve(kept());
  const auto add = [&](policy::DeviceStreamId stream, std::uint64_t order, policy::KernelKey key, std::uint64_t start,
                       std::uint64_t end) {
    const bool known = start != 0 && end > start;
    const auto since = std::max<std::int64_t>(static_cast<std::int64_t>(start) - clock_offset, 0);
    seen.push_back({stream, order, key, Nanoseconds(known ? since : 0),
                    Nanoseconds(known ? static_cast<std::int64_t>(end - start) : 0)});
  };
  for (const KernelRecord& record : alone_)
    add(record.stream, record.correlation, record.key, record.start, record.end);
  for (const auto& [correlation, graph] : graphs_) {
    add(policy::kGraphDeviceLane, correlation, policy::graph_key(graph.kernels), graph.start, graph.end);
  }
  return seen;
}

}  // namespace spillway::shim
