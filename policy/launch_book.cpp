#include "policy/launch_book.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

constexpr std::uint32_t kGraphBit = std::uint32_t{1} << 31;
constexpr std::size_t kMostGraphs = 4096;
constexpr std::size_t kMostOperands = 7;  // more are a list of tensors (a fused optimizer's)

}  // namespace

LaunchShapeId LaunchBook::graph_shape(std::span<const NamedPointer> pointers) {
  std::uint64_t hash = pointers.size() + 1;
  for (const NamedPointer& pointer : pointers) {
    hash = (hash ^ pointer.offset.count() ^ (std::uint64_t{pointer.allocation.value} << 40)) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  }
  const auto [entry, fresh] = graph_by_hash_.try_emplace(hash, 0);
  if (fresh) {
    if (graphs_.size() >= kMostGraphs) {
      graph_by_hash_.erase(entry);
      return {kGraphBit};
    }
    entry->second = static_cast<std::uint32_t>(graphs_.size());
    graphs_.emplace_back().shape = {kGraphBit | entry->second};
  }
  return {kGraphBit | entry->second};
}

bool LaunchBook::stale(LaunchShapeId shape, std::uint64_t epoch) const {
  const LaunchSite& known = site(shape);
  return !known.key || known.resolved_at != epoch;
}

void LaunchBook::learn(LaunchShapeId shape, FunctionId function, std::uint64_t threads, std::uint64_t epoch,
                       std::vector<NamedPointer> pointers, SpanMap& spans, Epoch now, Reaching reaching) {
  const bool graph = (shape.value & kGraphBit) != 0;
  const std::size_t at = graph ? shape.value & ~kGraphBit : shape.value % kMostShapes;
  std::vector<LaunchSite>& sites = graph ? graphs_ : sites_;
  if (graph && at >= sites.size()) return;
  if (at >= sites.size()) sites.resize(std::min(kMostShapes, std::max(at + 1, sites.size() * 2)));
  LaunchSite& known = sites[at];
  const bool same = known.shape == shape && known.pointers == pointers;
  known.shape = shape;
  known.function = function;
  known.threads = threads;
  known.key = launch_key(graph ? FunctionId{kGraphBit | static_cast<std::uint32_t>(at)} : function, threads);
  known.resolved_at = epoch;
  if (same) return;
  known.pointers = std::move(pointers);
  scratch_.clear();
  known.reaching = graph || known.pointers.size() > kMostOperands ? Reaching::unknown : reaching;
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

void LaunchBook::uses(LaunchShapeId shape, SpanMap& spans, Epoch now, std::vector<SpanUse>& out) const {
  const std::size_t first = out.size();
  const LaunchSite& known = site(shape);
  for (std::size_t i = 0; i < known.pointers.size(); ++i) {
    const NamedPointer& pointer = known.pointers[i];
    const Bytes reach = known.reaching == Reaching::by_threads ? reach_.of(known.function, i, known.threads) : Bytes();
    scratch_.clear();
    spans.touch(pointer.allocation, pointer.offset, reach, now, scratch_);
    for (const SpanId span : scratch_) out.push_back({span, pointer.argument});
  }
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
  std::stable_sort(begin, out.end(), [](const SpanUse& a, const SpanUse& b) { return a.span < b.span; });
  out.erase(std::unique(begin, out.end(), [](const SpanUse& a, const SpanUse& b) { return a.span == b.span; }),
            out.end());
}

}  // namespace spillway::policy
