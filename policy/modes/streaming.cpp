#include "policy/modes/streaming.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

// A program may be ahead of its device by many short iterations.
constexpr std::size_t kMostMarks = 32;

// Measured for so long, and so many schedules, at least: a mark is heard up to a millisecond late.
constexpr double kMeasuredSeconds = 0.2;
constexpr std::uint32_t kMeasuredSchedules = 4;
constexpr double kMustHelp = 0.98;  // a schedule with turns, of one without, at most

StretchMask bit(std::uint32_t stretch) { return StretchMask{1} << stretch; }

}  // namespace

void Streaming::begin(Plan plan, LaunchNumber launch) {
  plan_ = std::move(plan);
  origin_ = launch;
  changes_ = 0;
  running_ = failed_ = false;
  begun_ = 0;
  before_ = after_ = 0;
  const auto count = static_cast<std::uint32_t>(plan_.starts.size());
  for (const Piece& piece : plan_.pieces) {
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::uint32_t before = (k + count - 1) % count;
      if (((piece.in_hbm & bit(k)) != 0) != ((piece.in_hbm & bit(before)) != 0)) changes_ |= bit(k);
    }
  }
  launched(launch);
}

void Streaming::launched(LaunchNumber launch) {
  if (!active() || launch < origin_ || marks_.size() >= kMostMarks) return;
  const auto position = static_cast<std::uint32_t>((launch.value - origin_.value) % plan_.length.count());
  const auto start = std::lower_bound(plan_.starts.begin(), plan_.starts.end(), position);
  if (start == plan_.starts.end() || *start != position) return;
  const auto stretch = static_cast<std::uint32_t>(start - plan_.starts.begin());
  if (stretch != 0 && (!running_ || (changes_ & bit(stretch)) == 0)) return;
  Cause cause;
  cause.reason = Reason::upcoming_use;
  cause.launch = launch;
  marks_.emplace_back(writer_.emit(MarkProgress{launch}, cause), stretch);
}

std::optional<Streaming::Turns> Streaming::passed(const MarkPassed& mark, Nanoseconds now) {
  const auto found =
      std::find_if(marks_.begin(), marks_.end(), [&mark](const auto& asked) { return asked.first == mark.decision; });
  if (found == marks_.end()) return std::nullopt;
  const std::uint32_t stretch = found->second;
  marks_.erase(marks_.begin(), found + 1);
  if (!mark.result.ok()) {
    refused_ = true;
    return end();
  }
  if (!active()) return std::nullopt;
  if (stretch == 0) begins(now);
  if (!running_ || failed_) return std::nullopt;
  return turns(stretch);
}

// A schedule begins on the device.
void Streaming::begins(Nanoseconds now) {
  if (begun_++ == 0) began_ = now;
  const double seconds = static_cast<double>((now - began_).count()) * 1e-9;
  const std::uint32_t whole = begun_ - 1;
  if (whole < kMeasuredSchedules || seconds < kMeasuredSeconds) return;
  (running_ ? after_ : before_) = seconds / whole;
  failed_ = running_ && after_ > before_ * kMustHelp;
  begun_ = running_ ? 1 : 0;  // the first one with turns begins with what was there without
  began_ = now;
  running_ = true;
}

void Streaming::freeing(AllocationId allocation) {
  std::erase_if(plan_.pieces, [allocation](const Piece& piece) { return piece.range.allocation == allocation; });
}

Streaming::Turns Streaming::end() {
  Turns back;
  for (const Piece& piece : plan_.pieces) add(piece.range, piece.in_layout, back);
  plan_ = {};
  marks_.clear();
  return back;
}

// From this stretch on, until it leaves: stretches to come before the one in which it has to be there.
std::uint32_t Streaming::next_use(const Piece& piece, std::uint32_t stretch) const {
  const auto count = static_cast<std::uint32_t>(plan_.starts.size());
  for (std::uint32_t back = 0; back < count; ++back) {
    if ((piece.in_hbm & bit((stretch + count - back) % count)) == 0) return count - back;
  }
  return 0;
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
    return next_use(*a, stretch) < next_use(*b, stretch);
  });
  Turns all;
  for (const Piece* piece : order) add(piece->range, (piece->in_hbm & bit(stretch)) != 0, all);
  return all;
}

}  // namespace spillway::policy
