#include "policy/span_map.hpp"

#include <algorithm>

namespace spillway::policy {

SpanId SpanMap::make(AllocationId allocation, std::uint64_t offset, std::uint64_t bytes, Epoch epoch) {
  SpanId id;
  if (unused_.empty()) {
    id = SpanId{static_cast<std::uint32_t>(slots_.size())};
    slots_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  slots_[id.value] = {allocation, epoch, offset, bytes};
  ++live_;
  ++version_;
  return id;
}

void SpanMap::drop(SpanId id) {
  slots_[id.value] = {};
  unused_.push_back(id);
  --live_;
  ++version_;
}

void SpanMap::add(AllocationId allocation, Bytes bytes) {
  if (!allocation || bytes == Bytes() || blocks_.contains(allocation) || live_ >= limit_) return;
  Block& block = blocks_[allocation];
  block.bytes = bytes.count();
  block.cuts.push_back({0, 0, make(allocation, 0, bytes.count(), {})});
}

void SpanMap::remove(AllocationId allocation) {
  const auto found = blocks_.find(allocation);
  if (found == blocks_.end()) return;
  for (const Cut& cut : found->second.cuts) drop(cut.id);
  blocks_.erase(found);
}

void SpanMap::touch(AllocationId allocation, Bytes offset, Bytes extent, Epoch epoch, std::vector<SpanId>& out) {
  const auto found = blocks_.find(allocation);
  if (found == blocks_.end() || offset.count() >= found->second.bytes) return;
  Block& block = found->second;
  const std::uint64_t exact_end = offset.count() + std::min(extent.count(), block.bytes - offset.count());
  const std::uint64_t start = offset.count() - offset.count() % kSpanGrid.count();
  auto cut = std::upper_bound(block.cuts.begin(), block.cuts.end(), start,
                              [](std::uint64_t at, const Cut& c) { return at < c.offset; });
  --cut;  // the first cut is at 0, so there is always one before
  if (cut->offset != start && live_ < limit_) {
    Slot& before = slots_[cut->id.value];
    const std::uint64_t end = before.offset + before.bytes;
    before.bytes = start - before.offset;
    const SpanId id = make(allocation, start, end - start, epoch);
    cut = block.cuts.insert(cut + 1, {start, 0, id});
  }
  if (extent != Bytes()) cut->extent = exact_end - cut->offset;
  const std::uint64_t reach = cut->offset + cut->extent;
  do {
    slots_[cut->id.value].used = epoch;
    out.push_back(cut->id);
    ++cut;
    // Cuts are rounded down to the grid, ends are not: less than one step over it is the use's own last bytes.
  } while (cut != block.cuts.end() && cut->offset + kSpanGrid.count() <= reach);
}

void SpanMap::mark(SpanId span, Epoch epoch) {
  if (span.value < slots_.size() && slots_[span.value].allocation) slots_[span.value].used = epoch;
}

std::size_t SpanMap::age(Epoch oldest) {
  std::size_t gone = 0;
  for (auto& [allocation, block] : blocks_) {
    std::size_t kept = 0;
    for (const Cut& cut : block.cuts) {
      const Slot slot = slots_[cut.id.value];
      if (slot.offset != 0 && slot.used < oldest) {
        slots_[block.cuts[kept - 1].id.value].bytes += slot.bytes;
        drop(cut.id);
        ++gone;
      } else {
        block.cuts[kept++] = cut;
      }
    }
    block.cuts.resize(kept);
  }
  return gone;
}

SpanId SpanMap::at(AllocationId allocation, Bytes offset) const {
  const auto found = blocks_.find(allocation);
  if (found == blocks_.end() || offset.count() >= found->second.bytes) return {};
  const auto& cuts = found->second.cuts;
  const auto next = std::upper_bound(cuts.begin(), cuts.end(), offset.count(),
                                     [](std::uint64_t at, const Cut& c) { return at < c.offset; });
  return (next - 1)->id;
}

Span SpanMap::span(SpanId id) const {
  if (id.value >= slots_.size()) return {};
  const Slot& slot = slots_[id.value];
  return {slot.allocation, Bytes(slot.offset), Bytes(slot.bytes)};
}

void SpanMap::spans_of(AllocationId allocation, std::vector<SpanId>& out) const {
  const auto found = blocks_.find(allocation);
  if (found == blocks_.end()) return;
  for (const Cut& cut : found->second.cuts) out.push_back(cut.id);
}

std::string SpanMap::check_invariants() const {
  std::size_t count = 0;
  for (const auto& [allocation, block] : blocks_) {
    std::uint64_t expected = 0;
    for (const Cut& cut : block.cuts) {
      const Slot& slot = slots_[cut.id.value];
      if (slot.allocation != allocation) return "a span names another allocation";
      if (slot.offset != cut.offset || slot.offset != expected) return "spans overlap or leave a hole";
      if (slot.bytes == 0) return "an empty span";
      expected += slot.bytes;
      ++count;
    }
    if (expected != block.bytes) return "spans do not cover their allocation";
  }
  if (count != live_ || live_ + unused_.size() + 1 != slots_.size()) return "the count of spans is wrong";
  if (live_ > limit_) return "more spans than the limit";
  return {};
}

}  // namespace spillway::policy
