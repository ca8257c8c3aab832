#include "policy/pieces.hpp"

#include <algorithm>
#include <cmath>

#include "policy/chunk_parts.hpp"

namespace spillway::policy {
namespace {

constexpr std::uint32_t kMostChunks = 16;
// Chunks whose crossings differ by less are used alike.
constexpr double kAlike = 0.05;

// What an iteration asks of one chunk.
struct ChunkNeed {
  double crossings = 0;
  double most_crossings = 0;
  std::uint32_t first_use = ~std::uint32_t{0};
  std::uint32_t last_use = 0;
  std::uint64_t class_bytes = 0;  // of the span with most bytes in it
  SpanClass span_class = SpanClass::unknown;
  Pin pin;
};

bool alike(const ChunkNeed& a, const ChunkNeed& b) {
  return a.span_class == b.span_class && a.pin.pinned == b.pin.pinned && a.pin.rule == b.pin.rule &&
         std::abs(a.crossings - b.crossings) <= kAlike * (a.crossings + b.crossings);
}

std::vector<ChunkNeed> chunk_needs(AllocationId allocation, LaunchNumber born, const Pin& whole, std::size_t chunks,
                                   const Learned& learned) {
  std::vector<ChunkNeed> all(chunks);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    all[chunk].pin = whole;
    all[chunk].crossings = learned.needs.crossings(allocation, {chunk}, born);
  }
  std::vector<SpanId> spans;
  learned.spans.spans_of(allocation, spans);
  for (const SpanId id : spans) {
    if (learned.profile.uses(id).empty()) continue;
    const SpanHistory& known = learned.history.of(id);
    const Span span = learned.spans.span(id);
    each_chunk(span.offset, span.bytes, [&](std::uint32_t chunk, Bytes part) {
      ChunkNeed& need = all[chunk];
      need.most_crossings = std::max(need.most_crossings, known.most_crossings);
      need.first_use = std::min(need.first_use, known.first);
      need.last_use = std::max(need.last_use, known.last);
      if (part.count() > need.class_bytes) {
        need.class_bytes = part.count();
        need.span_class = learned.classes.of(id);
        need.pin = id.value < learned.pins.size() && learned.pins[id.value].rule != 0 ? learned.pins[id.value] : whole;
      }
    });
  }
  return all;
}

}  // namespace

std::uint32_t cut_pieces(AllocationId allocation, LaunchNumber born, const Pin& whole, const Learned& learned,
                         const Residency& residency, std::vector<Piece>& out) {
  const std::vector<Chunk>& chunks = residency.chunks(allocation);
  std::vector<ChunkNeed> all = chunk_needs(allocation, born, whole, chunks.size(), learned);
  const ChunkNeed* before = nullptr;
  std::uint32_t left_out = 0;
  for (std::uint32_t index = 0; index < chunks.size(); ++index) {
    const Chunk& chunk = chunks[index];
    const bool in_hbm = chunk.at == Placement::device || chunk.at == Placement::duplicated;
    if (chunk.moving || (!in_hbm && chunk.at != Placement::host)) {
      before = nullptr;
      ++left_out;
      continue;
    }
    ChunkNeed& need = all[index];
    need.crossings *= learned.heat.factor(allocation, {index}, in_hbm ? Heat::Where::hbm : Heat::Where::host);
    if (before == nullptr || !alike(*before, need) || out.back().in_hbm != in_hbm ||
        out.back().host_pages != chunk.host_pages || out.back().range.count == kMostChunks) {
      Piece piece;
      piece.range = {allocation, {index}, 0};
      piece.crossings = need.crossings;
      piece.first_use = need.first_use;
      piece.span_class = need.span_class;
      piece.in_hbm = in_hbm;
      piece.pinned = need.pin.pinned;
      piece.rule = need.pin.rule;
      piece.evict = need.pin.evict;
      piece.may_stream = need.pin.may_stream;
      piece.prefetch_distance = need.pin.prefetch_distance;
      piece.host_pages = chunk.host_pages;
      out.push_back(piece);
    }
    Piece& piece = out.back();
    ++piece.range.count;
    piece.bytes += residency.chunk_bytes(allocation, {index});
    piece.most_crossings = std::max(piece.most_crossings, need.most_crossings);
    piece.first_use = std::min(piece.first_use, need.first_use);
    piece.last_use = std::max(piece.last_use, need.last_use);
    before = &need;
  }
  return left_out;
}

}  // namespace spillway::policy
