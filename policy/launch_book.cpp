#include "policy/launch_book.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

constexpr std::uint32_t kGraphBit = std::uint32_t{1} << 31;
constexpr std::size_t kMostGraphs = 4096;
constexpr std::size_t kOperands = 3;      // of a matrix product, the result included
constexpr std::size_t kMostOperands = 7;  // more are a list of tensors (a fused optimizer's)

}  // namespace

LaunchShapeId LaunchBook::graph_shape(std::span<const LaunchShapeId> kernels) {
  std::uint64_t hash = kernels.size() + 1;
  for (const LaunchShapeId kernel : kernels) {
    hash = (hash ^ kernel.value) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  }
  const auto [entry, fresh] = graph_by_hash_.try_emplace(hash, 0);
  if (fresh) {
    if (graphs_.size() >= kMostGraphs) {
      graph_by_hash_.erase(entry);
      return {kGraphBit};
    }
    entry->second = static_cast<std::uint32_t>(graphs_.size());
    LaunchSite& made = graphs_.emplace_back();
    made.shape = {kGraphBit | entry->second};
    made.key = launch_key(FunctionId{made.shape.value}, 0);
    made.kernels.assign(kernels.begin(), kernels.end());
  }
  return {kGraphBit | entry->second};
}

bool LaunchBook::stale(LaunchShapeId shape, std::uint64_t epoch) const {
  const LaunchSite& known = site(shape);
  return !known.key || known.resolved_at != epoch;
}

void LaunchBook::learn(LaunchShapeId shape, FunctionId function, std::uint64_t threads, std::uint64_t epoch,
                       std::vector<NamedPointer> pointers, SpanMap& spans, Epoch now, Reaching reaching) {
  const std::size_t at = shape.value % kMostShapes;
  if (is_graph(shape)) return;
  if (at >= sites_.size()) sites_.resize(std::min(kMostShapes, std::max(at + 1, sites_.size() * 2)));
  LaunchSite& known = sites_[at];
  const bool same = known.shape == shape && known.pointers == pointers;
  known.shape = shape;
  known.function = function;
  known.threads = threads;
  known.key = launch_key(function, threads);
  known.resolved_at = epoch;
  if (same) return;
  known.pointers = std::move(pointers);
  scratch_.clear();
  known.reaching = known.pointers.size() > kMostOperands ? Reaching::unknown : reaching;
  for (std::size_t i = 0; i < known.pointers.size(); ++i) {
    const NamedPointer& pointer = known.pointers[i];
    if (known.reaching == Reaching::by_threads) reach_.seen(function, i, threads, pointer.room);
    spans.touch(pointer.allocation, pointer.offset, {}, now, scratch_);
  }
}

const LaunchSite& LaunchBook::site(LaunchShapeId shape) const {
  static const LaunchSite nameless;
  const bool graph = (shape.value & kGraphBit) != 0;
  const std::vector<LaunchSite>& sites = graph ? graphs_ : sites_;
  const std::size_t at = graph ? shape.value & ~kGraphBit : shape.value % kMostShapes;
  return at < sites.size() && sites[at].shape == shape ? sites[at] : nameless;
}

bool LaunchBook::reach_known(LaunchShapeId shape, std::uint16_t argument) const {
  const LaunchSite& known = site(shape);
  if (known.reaching != Reaching::by_threads) return false;
  for (std::size_t i = 0; i < known.pointers.size(); ++i) {
    if (known.pointers[i].argument == argument) return reach_.of(known.function, i, known.threads) != Bytes();
  }
  return false;
}

void LaunchBook::uses(LaunchShapeId shape, SpanMap& spans, Epoch now, std::vector<SpanUse>& out) const {
  const LaunchSite& known = site(shape);
  if (known.kernels.empty()) return uses_of(known, spans, now, out);
  for (const LaunchShapeId kernel : known.kernels) uses_of(site(kernel), spans, now, out);
}

void LaunchBook::uses_of(const LaunchSite& kernel, SpanMap& spans, Epoch now, std::vector<SpanUse>& out) const {
  const std::size_t first = out.size();
  extents_.clear();
  for (std::size_t i = 0; i < kernel.pointers.size(); ++i) {
    const NamedPointer& pointer = kernel.pointers[i];
    const Bytes reach =
        kernel.reaching == Reaching::by_threads ? reach_.of(kernel.function, i, kernel.threads) : Bytes();
    scratch_.clear();
    spans.touch(pointer.allocation, pointer.offset, reach, now, scratch_);
    if (i < kOperands) extents_.emplace_back();
    for (const SpanId span : scratch_) {
      if (i < kOperands) extents_.back() += spans.span(span).bytes;
      out.push_back({span, kernel.shape, pointer.argument, static_cast<float>(i)});
    }
  }
  for (std::size_t use = first; use < out.size(); ++use) {
    const auto position = static_cast<std::size_t>(out[use].columns);
    out[use].columns = static_cast<float>(operand_columns(position, extents_, kernel.threads));
  }
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
  std::stable_sort(begin, out.end(), [](const SpanUse& a, const SpanUse& b) { return a.span < b.span; });
  out.erase(std::unique(begin, out.end(), [](const SpanUse& a, const SpanUse& b) { return a.span == b.span; }),
            out.end());
}

}  // namespace spillway::policy
