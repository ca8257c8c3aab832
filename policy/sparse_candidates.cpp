#include "policy/sparse_candidates.hpp"

#include <algorithm>
#include <optional>

namespace spillway::policy {
namespace {

// A launch of whose bytes less than this crosses the link reads a part of them.
constexpr double kFarBelowOne = 0.5;

// May this use be one of a part?
bool may_be_sparse(const ProfiledUse& use, const Learned& learned, const LaunchKnowledge& launches) {
  const LaunchSite& site = launches.book.site(use.shape);
  if (const auto kind = launch_kind(site, learned.spans)) {
    if (const auto measured = launches.crossings.of(*kind, launches.costs); measured && *measured < kFarBelowOne)
      return true;
  }
  switch (launches.functions.kind(site.function)) {
    case FunctionKind::attention:
    case FunctionKind::sparse:
      return true;
    case FunctionKind::matrix:
    case FunctionKind::optimizer:
      return false;
    case FunctionKind::other:
      break;
  }
  return !launches.book.reach_known(use.shape, use.argument);
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 31U);
}

}  // namespace

std::vector<SparseRange> sparse_candidates(const Learned& learned, const LaunchKnowledge& launches) {
  std::vector<SparseRange> found;
  std::vector<std::uint64_t> used_by;
  for (const SpanId id : learned.profile.spans()) {
    const Span span = learned.spans.span(id);
    if (span.bytes < kLeastSparse || learned.classes.of(id) == SpanClass::optimizer) continue;
    const bool pinned = id.value < learned.pins.size() && learned.pins[id.value].pinned != Piece::Pinned::no;
    if (pinned) continue;
    const auto uses = learned.profile.uses(id);
    used_by.clear();
    bool candidate = false;
    std::size_t whole = 0;  // uses by functions that are known to read all they are told to, of a cache or a table
    for (const ProfiledUse& use : uses) {
      candidate = candidate || may_be_sparse(use, learned, launches);
      const FunctionKind kind = launches.functions.kind(launches.book.site(use.shape).function);
      whole += kind == FunctionKind::attention || kind == FunctionKind::sparse ? 1 : 0;
      used_by.push_back(std::uint64_t{launches.book.site(use.shape).function.value} << 16U | use.argument);
    }
    if (!candidate) continue;
    std::sort(used_by.begin(), used_by.end());
    used_by.erase(std::unique(used_by.begin(), used_by.end()), used_by.end());
    SparseRange range;
    range.family = 1;
    for (const std::uint64_t use : used_by) range.family = mixed(range.family, use);
    const std::uint64_t first = (span.offset.count() + kChunk.count() - 1) / kChunk.count();
    const std::uint64_t end = (span.offset.count() + span.bytes.count()) / kChunk.count();
    if (end <= first) continue;
    range.chunks = {span.allocation, {static_cast<std::uint32_t>(first)}, static_cast<std::uint32_t>(end - first)};
    range.crossings = learned.history.of(id).crossings;
    // Others write a row, or look something up.
    range.uses = static_cast<double>(whole > 0 ? whole : uses.size());
    range.span_class = learned.classes.of(id);
    found.push_back(range);
  }
  return found;
}

}  // namespace spillway::policy
