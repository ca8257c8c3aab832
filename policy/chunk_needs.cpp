#include "policy/chunk_needs.hpp"

#include <algorithm>

#include "policy/chunk_parts.hpp"

namespace spillway::policy {

void ChunkNeeds::clear() {
  first_launches_.clear();
  crossings_.clear();
}

void ChunkNeeds::add(const IterationProfile& profile, const SpanMap& spans, UseCrossings& crossings) {
  first_launches_.push_back(profile.first_launch());
  for (const SpanId id : profile.spans()) {
    const Span span = spans.span(id);
    if (!span.allocation) continue;
    const double each = crossings.of(profile, id).all;
    std::vector<double>& chunks = crossings_[span.allocation];
    const std::uint64_t end = span.offset.count() + span.bytes.count();
    const std::size_t count = (end + kChunk.count() - 1) / kChunk.count();
    if (chunks.size() < count) chunks.resize(count);
    each_chunk(span.offset, span.bytes, [&](std::uint32_t chunk, Bytes part) {
      chunks[chunk] += each * static_cast<double>(part.count()) / static_cast<double>(kChunk.count());
    });
  }
}

double ChunkNeeds::crossings(AllocationId allocation, ChunkIndex chunk, LaunchNumber born) const {
  const auto found = crossings_.find(allocation);
  if (found == crossings_.end() || chunk.value >= found->second.size()) return 0;
  const auto seen = std::count_if(first_launches_.begin(), first_launches_.end(),
                                  [born](LaunchNumber first) { return born < first; });
  return found->second[chunk.value] / static_cast<double>(std::max<std::ptrdiff_t>(seen, 1));
}

}  // namespace spillway::policy
