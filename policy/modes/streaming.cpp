#include "policy/modes/streaming.hpp"

#include <algorithm>

#include "policy/queue_depth.hpp"

namespace spillway::policy {
namespace {

// Marks in a stretch, and in a schedule that is only measured.
constexpr std::uint64_t kMarksAStretch = 8;
constexpr std::uint64_t kMarksToMeasure = 32;
// Beginnings that the device may have before it; more are there only if nothing tells how far it is.
constexpr std::size_t kMostOrigins = kQueueDepth;
// Measured for so long, and so many schedules, at least: a mark is heard up to a millisecond late. Of long ones that is
// nothing, and one that takes this long is enough.
constexpr double kMeasuredSeconds = 0.2;
constexpr std::uint64_t kMeasuredSchedules = 4;
constexpr double kLongSchedules = 1;  // seconds
// Schedules with turns that do not count: the first begins with what was there without, and sends out for the first
// time; with each, less is in place, and what moves is faster.
constexpr std::uint64_t kWarmUp = 4;
constexpr double kMustHelp = 0.98;  // a schedule with turns, of one without, at most

}  // namespace

void Streaming::begin(Plan plan, LaunchNumber launch) {
  plan_ = std::move(plan);
  std::vector<TurnPiece> pieces;
  for (const Piece& piece : plan_.pieces) pieces.push_back(piece.turns);
  chooser_ = TurnChooser(std::move(pieces), plan_.seconds, plan_.limit, books_.costs);
  origins_ = {launch};
  stretch_.reset();
  phase_ = Phase::measuring;
  measured_from_ = warm_ = {};
  before_ = after_ = 0;
  ask(plan_.length.count() / kMarksToMeasure);
}

void Streaming::ask(std::uint64_t every) {
  Cause cause;
  cause.reason = Reason::turn;
  writer_.emit(MarkProgress{std::max<std::uint64_t>(every, 1)}, cause);
}

void Streaming::begins_again(LaunchNumber launch) {
  origins_.push_back(launch);
  if (origins_.size() > kMostOrigins) origins_.pop_front();
}

std::optional<Streaming::Turns> Streaming::passed(const MarkPassed& mark, Nanoseconds now) {
  if (!mark.result.ok()) {
    refused_ = true;
    if (!active()) return std::nullopt;
    return back_to_layout();
  }
  if (!active()) return std::nullopt;
  while (origins_.size() > 1 && origins_[1] <= mark.launch) origins_.pop_front();
  if (mark.launch < origins_.front()) return std::nullopt;
  measure(mark.launch, now);
  const auto position = static_cast<std::uint32_t>((mark.launch.value - origins_.front().value) % plan_.length.count());
  const auto next = std::upper_bound(plan_.starts.begin(), plan_.starts.end(), position);
  const auto stretch = static_cast<std::uint32_t>(next - plan_.starts.begin()) - 1;
  const std::uint64_t end = stretch + 1 < plan_.starts.size() ? plan_.starts[stretch + 1] : plan_.length.count();
  const double into = position - plan_.starts[stretch];
  chooser_.reached(stretch, into / static_cast<double>(end - plan_.starts[stretch]), now);
  if (!taking_turns() || stretch_ == stretch) return std::nullopt;
  stretch_ = stretch;
  return turns(now);
}

std::optional<Streaming::Turns> Streaming::moved(const FinishedMove& move, MoveOutcome outcome, Nanoseconds now) {
  const auto is = [&move](const Piece& piece) { return piece.range == move.range; };
  if (!taking_turns() || !std::any_of(plan_.pieces.begin(), plan_.pieces.end(), is)) return std::nullopt;
  // Asked for again at once, it would be refused again, for ever.
  if (outcome != MoveOutcome::done) return std::nullopt;
  chooser_.moved(move.bytes, in_hbm(move.to) ? TurnPlace::in_hbm : TurnPlace::host, now);
  return turns(now);
}

void Streaming::measure(LaunchNumber launch, Nanoseconds now) {
  const std::uint64_t length = plan_.length.count();
  if (!measured_from_) {
    if (launch < warm_) return;
    measured_from_ = launch;
    began_ = now;
    measured_ = 0;
    return;
  }
  // From the same place in a schedule to the same: its parts are not alike.
  const std::uint64_t launches = launch.value - measured_from_.value;
  if (launches / length == measured_) return;
  measured_ = launches / length;
  const double schedules = static_cast<double>(launches) / static_cast<double>(length);
  const double seconds = static_cast<double>((now - began_).count()) * 1e-9;
  if (seconds < kMeasuredSeconds || (measured_ < kMeasuredSchedules && seconds < kLongSchedules)) return;
  measured_from_ = {};
  if (phase_ != Phase::measuring) {
    after_ = seconds / schedules;
    phase_ = after_ > before_ * kMustHelp ? Phase::failed : Phase::kept;
    return;
  }
  before_ = seconds / schedules;
  phase_ = Phase::taking_turns;
  warm_ = {launch.value + kWarmUp * length};
  ask(length / (plan_.starts.size() * kMarksAStretch));
}

void Streaming::freeing(AllocationId allocation) {
  if (!active()) return;
  // The others keep their numbers.
  for (Piece& piece : plan_.pieces) {
    if (piece.range.allocation == allocation) piece.range = {};
  }
  const auto gone = [](const Piece& piece) { return !piece.range.allocation; };
  if (std::all_of(plan_.pieces.begin(), plan_.pieces.end(), gone)) end();  // launches need leave no marks any more
}

Streaming::Turns Streaming::end() {
  Cause cause;
  cause.reason = Reason::turns_end;
  writer_.emit(MarkProgress{}, cause);
  return back_to_layout();
}

Streaming::Turns Streaming::back_to_layout() {
  Turns back;
  for (const Piece& piece : plan_.pieces) {
    const TurnPlace at = place(piece.range);
    if (at == TurnPlace::host && piece.in_layout) back.in.push_back(piece.range);
    if (at == TurnPlace::in_hbm && !piece.in_layout) back.out.push_back(piece.range);
  }
  plan_ = {};
  return back;
}

TurnPlace Streaming::place(const ChunkRange& range) const {
  if (!books_.residency.holds(range.allocation)) return TurnPlace::gone;
  const std::vector<Chunk>& chunks = books_.residency.chunks(range.allocation);
  if (range.first.value >= chunks.size()) return TurnPlace::gone;
  const Chunk& first = chunks[range.first.value];
  if (in_hbm(first.at)) return first.moving ? TurnPlace::leaving : TurnPlace::in_hbm;
  return first.moving ? TurnPlace::coming : TurnPlace::host;
}

Streaming::Turns Streaming::turns(Nanoseconds now) {
  std::vector<TurnPlace> places;
  for (const Piece& piece : plan_.pieces) places.push_back(place(piece.range));
  const TurnChooser::Choice choice = chooser_.choose(places, now);
  Turns all;
  for (const std::uint32_t piece : choice.out) all.out.push_back(plan_.pieces[piece].range);
  for (const std::uint32_t piece : choice.in) all.in.push_back(plan_.pieces[piece].range);
  return all;
}

}  // namespace spillway::policy
