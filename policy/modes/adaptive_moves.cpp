// The moves of a plan, so many at a time; what a mistaken plan changed is taken back; room for plain memory.
#include <algorithm>
#include <string>

#include "policy/modes/adaptive.hpp"

namespace spillway::policy {
namespace {

constexpr double kHelped = 0.97;           // an iteration after taking back, of one before, at most
constexpr std::uint32_t kMostOpenOut = 4;  // four workers send out at once (17-23 GB/s against 10-15 for one)
constexpr std::uint32_t kMostOpenIn = 2;
constexpr std::uint32_t kHoldAfterMistake = 32;  // iterations, once for each mistake so far
constexpr std::uint64_t kMovingShare = 8;        // of the window: more is not moved at a time

}  // namespace

std::size_t Adaptive::open_to(Placement to) const {
  return static_cast<std::size_t>(
      std::count_if(open_.begin(), open_.end(), [to](const PlannedMove& move) { return move.to == to; }));
}

void Adaptive::pump() {
  const auto open = [this](const PlannedMove& move) {
    if (!writer_.move(move.range, move.to, Urgency::background, {}, {}, move.cause)) return;
    open_.push_back(move);
    const bool streamed = move.cause.reason == Reason::turn || move.cause.reason == Reason::turns_end;
    if (!streamed) last_change_.push_back(move);
  };
  // Room for plain memory can be made only of what is not moving; one move each way there may be.
  const auto few = [this](const PlannedMove& move) {
    if (open_to(move.to) == 0) return true;
    const DeviceIndex device = books_.residency.device(move.range.allocation);
    const Bytes window = books_.residency.usage(device).held() + books_.room(device);
    return books_.residency.held_by_moves(device) <= Bytes(window.count() / kMovingShare);
  };
  while (!out_.empty() && open_to(Placement::host) < kMostOpenOut && few(out_.front())) {
    const PlannedMove move = out_.front();
    out_.pop_front();
    open(move);
  }
  while (!in_.empty() && open_to(Placement::device) < kMostOpenIn && few(in_.front())) {
    const PlannedMove move = in_.front();
    const DeviceIndex device = books_.residency.device(move.range.allocation);
    if (books_.residency.growth(move.range) > books_.room(device)) {
      // It waits for what is leaving; if nothing is, the next plan asks again.
      if (!out_.empty() || open_to(Placement::host) > 0) return;
      in_.pop_front();
      continue;
    }
    in_.pop_front();
    sparse_.coming_in(move.range, move.cause);
    if (books_.residency.prefers_host(move.range)) writer_.advise(move.range, Advice::unset_preferred, move.cause);
    open(move);
  }
}

void Adaptive::moved(const FinishedMove& move, MoveOutcome outcome, Nanoseconds now) {
  sparse_.moved(move, outcome);
  std::vector<std::uint64_t>& moved_at = last_moved_[move.range.allocation];
  moved_at.resize(books_.residency.chunks(move.range.allocation).size());
  std::fill_n(moved_at.begin() + move.range.first.value, move.range.count, forecast_.launches().value);
  const auto ours = std::find_if(open_.begin(), open_.end(), [&move](const PlannedMove& planned) {
    return planned.range == move.range && planned.to == move.to;
  });
  if (ours == open_.end()) return;
  open_.erase(ours);
  const auto turns = streaming_.moved(move, outcome, now);
  if (turns) return turn(*turns, Reason::turn);
  pump();
}

void Adaptive::judge(Nanoseconds took) {
  const bool still = out_.empty() && in_.empty() && open_.empty() && !sparse_.moving();
  const Verdict verdict = watchdog_.iteration(took, still ? Watchdog::Moves::settled : Watchdog::Moves::open);
  if (verdict != Verdict::none && slow_)
    judge_taking_back();
  else if (verdict == Verdict::revert)
    take_back();
}

void Adaptive::take_back() {
  const auto by_rule = [](const PlannedMove& move) { return move.cause.reason == Reason::rule; };
  const bool only_rules = std::all_of(last_change_.begin(), last_change_.end(), by_rule);
  Cause cause;
  cause.reason = Reason::watchdog;
  const std::string what = "the last change made an iteration take " +
                           std::to_string(watchdog_.after().count() / 1000) + " us instead of " +
                           std::to_string(watchdog_.before().count() / 1000) + " us: ";
  writer_.note({}, {}, {},
               what + (only_rules ? "a rule of the policy file asks for it, so it stays" : "it is taken back"), cause);
  if (only_rules) return;
  out_.clear();
  in_.clear();
  ++taken_back_;
  hold_ = kHoldAfterMistake * taken_back_;
  for (const PlannedMove& move : last_change_) {
    if (by_rule(move)) continue;
    const bool inward = move.to == Placement::host;
    (inward ? in_ : out_).push_back({move.range, inward ? Placement::device : Placement::host, cause});
  }
  last_change_.clear();
  slow_ = watchdog_.after();
  watchdog_.change();
  pump();
}

void Adaptive::judge_taking_back() {
  const double was = static_cast<double>(slow_->count());
  slow_.reset();
  if (static_cast<double>(watchdog_.after().count()) < was * kHelped) return;
  // The program itself became slower. What was taken back is worth doing again.
  hold_ = 0;
  replan_ = true;
  writer_.note({}, {}, {}, "taking the last change back did not help: it was not to blame", {});
}

// Rules of kernels as well, a part of it is enough.
bool Adaptive::kept(const Allocation& allocation) const {
  if (Arrival::kept(allocation)) return true;
  std::vector<SpanId> spans;
  spans_.spans_of(allocation.id, spans);
  return std::any_of(spans.begin(), spans.end(), [this](SpanId span) {
    return span.value < pins_.size() && pins_[span.value].pinned == Piece::Pinned::in_hbm;
  });
}

void Adaptive::make_room(DeviceIndex device, Bytes bytes, RoomFor what) {
  if (profile_.length() == LaunchCount()) return Arrival::make_room(device, bytes, what);
  std::vector<Piece> pieces = pieces_of(device);
  std::erase_if(pieces, [](const Piece& piece) { return !piece.in_hbm || piece.pinned == Piece::Pinned::in_hbm; });
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return rank(a) < rank(b); });
  Bytes freed;
  for (const Piece& piece : pieces) {
    if (freed >= bytes) return;
    Cause cause;
    cause.reason = Reason::device_budget;
    cause.span_class = static_cast<std::uint16_t>(piece.span_class);
    cause.worth = shown_worth(piece, costs_);
    // From its end, no more than is needed: what asks for room waits for it.
    ChunkRange leaves{piece.range.allocation, {piece.range.first.value + piece.range.count}, 0};
    Bytes room;
    while (leaves.count < piece.range.count && freed + room < bytes) {
      --leaves.first.value;
      ++leaves.count;
      room += books_.residency.chunk_bytes(leaves.allocation, leaves.first);
    }
    if (leave(leaves, cause)) freed += room;
  }
  // What is too young to be planned goes last.
  if (freed < bytes) Arrival::make_room(device, bytes - freed, what);
}

}  // namespace spillway::policy
