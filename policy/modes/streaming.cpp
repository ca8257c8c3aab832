#include "policy/modes/streaming.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

// Marks in a stretch, and in a schedule that is only measured.
constexpr std::uint64_t kMarksAStretch = 8;
constexpr std::uint64_t kMarksToMeasure = 32;
// Beginnings that the device may have before it; more are there only if nothing tells how far it is.
constexpr std::size_t kMostOrigins = 1024;
// Measured for so long, and so many schedules, at least: a mark is heard up to a millisecond late.
constexpr double kMeasuredSeconds = 0.2;
constexpr std::uint32_t kMeasuredSchedules = 4;
// Schedules with turns that do not count: the first begins with what was there without, and sends out for the first
// time.
constexpr std::uint64_t kWarmUp = 2;
constexpr double kMustHelp = 0.98;  // a schedule with turns, of one without, at most

StretchMask bit(std::uint32_t stretch) { return StretchMask{1} << stretch; }

}  // namespace

void Streaming::begin(Plan plan, LaunchNumber launch) {
  plan_ = std::move(plan);
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
  if (phase_ == Phase::measuring || phase_ == Phase::failed || stretch_ == stretch) return std::nullopt;
  stretch_ = stretch;
  return turns(stretch);
}

void Streaming::measure(LaunchNumber launch, Nanoseconds now) {
  const std::uint64_t length = plan_.length.count();
  if (!measured_from_) {
    if (launch < warm_) return;
    measured_from_ = launch;
    began_ = now;
    return;
  }
  const double schedules = static_cast<double>(launch.value - measured_from_.value) / static_cast<double>(length);
  const double seconds = static_cast<double>((now - began_).count()) * 1e-9;
  if (schedules < kMeasuredSchedules || seconds < kMeasuredSeconds) return;
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
  std::erase_if(plan_.pieces, [allocation](const Piece& piece) { return piece.range.allocation == allocation; });
  if (!active()) end();  // launches need leave no marks any more
}

Streaming::Turns Streaming::end() {
  Cause cause;
  cause.reason = Reason::turns_end;
  writer_.emit(MarkProgress{}, cause);
  return back_to_layout();
}

Streaming::Turns Streaming::back_to_layout() {
  Turns back;
  for (const Piece& piece : plan_.pieces) add(piece.range, piece.in_layout, back);
  plan_ = {};
  return back;
}

// Stretches since it has to be there.
std::uint32_t Streaming::lateness(const Piece& piece, std::uint32_t stretch) const {
  const auto count = static_cast<std::uint32_t>(plan_.starts.size());
  std::uint32_t late = 0;
  while (late < count && (piece.in_hbm & bit((stretch + count - late) % count)) != 0) ++late;
  return late;
}

void Streaming::add(const ChunkRange& range, bool wanted, Turns& turns) const {
  if (!books_.residency.holds(range.allocation)) return;
  const std::vector<Chunk>& chunks = books_.residency.chunks(range.allocation);
  if (range.first.value >= chunks.size()) return;
  const Chunk& first = chunks[range.first.value];
  if (first.moving || in_hbm(first.at) == wanted) return;
  (wanted ? turns.in : turns.out).push_back(range);
}

Streaming::Turns Streaming::turns(std::uint32_t stretch) const {
  std::vector<const Piece*> order;
  for (const Piece& piece : plan_.pieces) order.push_back(&piece);
  std::stable_sort(order.begin(), order.end(), [this, stretch](const Piece* a, const Piece* b) {
    return lateness(*a, stretch) > lateness(*b, stretch);
  });
  Turns all;
  for (const Piece* piece : order) add(piece->range, (piece->in_hbm & bit(stretch)) != 0, all);
  return all;
}

}  // namespace spillway::policy
