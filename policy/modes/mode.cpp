#include "policy/modes/mode.hpp"

#include "policy/modes/adaptive.hpp"
#include "policy/modes/arrival.hpp"
#include "policy/modes/demand.hpp"

namespace spillway::policy {

std::optional<DecisionId> DecisionWriter::move(const ChunkRange& range, Placement to, Urgency urgency,
                                               LaunchNumber after, LaunchNumber before, const Cause& cause) {
  const Allocation* allocation = books_.allocations.find(range.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::live || range.count == 0) return std::nullopt;
  const bool inward = to == Placement::device || to == Placement::duplicated;
  if (inward && books_.residency.growth(range) > books_.room(allocation->device)) return std::nullopt;
  if (!inward && books_.residency.host_growth(range) > books_.host_room()) return std::nullopt;
  if (!books_.residency.open_move({last_.value + 1}, range, to)) return std::nullopt;
  MoveRange move;
  move.allocation = range.allocation;
  move.offset = kChunk * range.first.value;
  move.bytes = books_.residency.range_bytes(range);
  move.to = to;
  move.urgency = urgency;
  move.after = after;
  move.before = before;
  return emit(move, cause);
}

bool DecisionWriter::advise(const ChunkRange& range, Advice advice, const Cause& cause) {
  const Allocation* allocation = books_.allocations.find(range.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::live || range.count == 0) return false;
  if (advice == Advice::prefer_host || advice == Advice::probe) books_.residency.set_prefers_host(range, true);
  if (advice == Advice::prefer_device || advice == Advice::unset_preferred) {
    books_.residency.set_prefers_host(range, false);
  }
  emit(AdviseRange{range.allocation, kChunk * range.first.value, books_.residency.range_bytes(range), advice}, cause);
  return true;
}

void DecisionWriter::note(AllocationId allocation, Bytes offset, Bytes bytes, std::string text, const Cause& cause) {
  emit(Note{allocation, offset, bytes, std::move(text)}, cause);
}

DecisionId DecisionWriter::emit(DecisionBody body, const Cause& cause) {
  last_ = {last_.value + 1};
  out_->push_back({last_, cause, std::move(body)});
  if (cause.span_class != 0) {
    if (Allocation* allocation = books_.allocations.find(about(out_->back().body))) allocation->said.add(out_->back());
  }
  return last_;
}

std::unique_ptr<Mode> make_mode(Books& books, DecisionWriter& writer) {
  switch (books.settings.mode) {
    case ModeName::off:
    case ModeName::arrival:
      break;
    case ModeName::adaptive:
      return std::make_unique<Adaptive>(books, writer);
    case ModeName::demand:
      return std::make_unique<Demand>(books, writer, Demand::FirstTouch::faults);
    case ModeName::alloc_prefetch:
      return std::make_unique<Demand>(books, writer, Demand::FirstTouch::prefetched);
  }
  return std::make_unique<Arrival>(books, writer);
}

}  // namespace spillway::policy
