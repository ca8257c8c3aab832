#include "policy/modes/sparse_ranges.hpp"

#include <algorithm>
#include <utility>

#include "policy/planner.hpp"

namespace spillway::policy {
namespace {

// An epoch is so many rounds and so long, as hits are told some milliseconds late.
constexpr std::uint32_t kEpochRounds = 4;
constexpr Nanoseconds kLeastEpoch = Nanoseconds(50'000'000);
constexpr std::uint32_t kRegret = 4;       // epochs after which a probe left behind has said no
constexpr double kNewsOfMistakes = 0.1;    // weight of one block's
constexpr double kForgotten = 0.01;        // of what was learned about mistakes, in an epoch
constexpr std::uint32_t kCalmEpochs = 2;   // averaged before the first probe
constexpr double kSlower = 1.25;           // an iteration with us, of one without, for
constexpr std::uint32_t kSlowEpochs = 8;   // in a row
constexpr std::uint32_t kTrialEpochs = 4;  // without, to see whether that helps
constexpr double kRelieved = 0.9;          // an iteration without, of one with, at most
constexpr std::uint32_t kHoldOff = 32;     // epochs after it has helped, and twice as long each time
constexpr std::uint32_t kMostTimes = 4;

}  // namespace

void SparseRanges::heard(const Event& event) {
  if (const auto* changed = std::get_if<TelemetryChanged>(&event.body)) {
    switch (changed->state) {
      case TelemetryState::running:
        telemetry_ = true;
        break;
      case TelemetryState::pages_watched:
        telemetry_ = watched_ = true;
        break;
      case TelemetryState::absent:
      case TelemetryState::refused:
        telemetry_ = false;
        blind();
        break;
      case TelemetryState::yielded:
      case TelemetryState::pages_lost:
        blind();
        break;
      case TelemetryState::window_lost:
      case TelemetryState::by_events:
      case TelemetryState::events_refused:
        break;
    }
  }
  if (const auto* pages = std::get_if<PagesObserved>(&event.body)) page_hit(*pages);
}

// Nobody would tell of their use, and each costs as much as before.
void SparseRanges::blind() {
  watched_ = false;
  std::vector<ChunkRange> probes;
  heat_.unset(probes);
  map(probes, Reason::sparse);
  for (auto& [key, stay] : stays_) stay.left = 0;
}

void SparseRanges::map(const std::vector<ChunkRange>& chunks, Reason reason) {
  Cause cause;
  cause.reason = reason;
  cause.launch = launch_;
  for (const ChunkRange& chunk : chunks) writer_.advise(chunk, Advice::accessed_by, cause);
}

void SparseRanges::page_hit(const PagesObserved& pages) {
  if (pages.traffic != PageTraffic::remote_map || heat_.probes() == 0) return;
  const Allocation* allocation = books_.allocations.at(pages.address);
  if (allocation == nullptr) return;
  const ChunkIndex chunk{
      static_cast<std::uint32_t>((pages.address.value - allocation->address.value) / kChunk.count())};
  const HeatBlock* block = heat_.hit(allocation->id, chunk);
  if (block == nullptr) return;
  news_ = acted_ = true;
  // At once: each further page of it is a fault as well.
  std::vector<ChunkRange> probes{{allocation->id, chunk, 1}};
  std::vector<const HeatBlock*> used = heat_.spread(*block, probes);
  map(probes, Reason::hot);
  used.push_back(block);
  bool mistake = false;
  for (const HeatBlock* each : used) {
    const auto stay = stays_.find({each->range.allocation, each->range.first.value});
    if (stay == stays_.end() || stay->second.left == 0) continue;
    stay->second.left = 0;
    ++stay->second.mistakes;
    mistake = true;
  }
  if (mistake) mistaken_ += kNewsOfMistakes * (1 - mistaken_);
}

void SparseRanges::profile(std::span<const SparseRange> ranges, LaunchCount length) {
  profiled_ = true;
  length_ = static_cast<double>(length.count());
  std::vector<ChunkRange> gone;
  heat_.watch(ranges, gone);
  map(gone, Reason::sparse);
}

void SparseRanges::freeing(AllocationId allocation) {
  heat_.forget(allocation);
  std::erase_if(stays_, [allocation](const auto& stay) { return stay.first.first == allocation; });
  std::erase_if(in_, [allocation](const Planned& planned) { return planned.range.allocation == allocation; });
  std::erase_if(open_, [allocation](const auto& move) { return move.first.allocation == allocation; });
}

void SparseRanges::coming_in(const ChunkRange& range, const Cause& cause) {
  std::vector<ChunkRange> probes;
  heat_.unset(range, probes);
  for (const ChunkRange& probe : probes) writer_.advise(probe, Advice::accessed_by, cause);
}

void SparseRanges::round(Nanoseconds now, LaunchNumber launch, Changes changes) {
  launch_ = launch;
  if (!epoch_launch_ || launch < epoch_launch_ || !profiled_) {
    epoch_launch_ = launch;
    epoch_began_ = last_round_ = now;
    return;
  }
  heat_.pass(now - last_round_);
  last_round_ = now;
  pump();
  // What was seen in use need not wait for the end of the epoch.
  if (std::exchange(news_, false) && acts(changes)) exchange();
  if (++rounds_ < kEpochRounds || now - epoch_began_ < kLeastEpoch) return;
  end_of_epoch(now, changes);
  rounds_ = 0;
  epoch_began_ = now;
  epoch_launch_ = launch;
}

bool SparseRanges::acts(Changes changes) const {
  return watched_ && hold_ == 0 && calm_ >= kCalmEpochs && changes == Changes::allowed;
}

void SparseRanges::end_of_epoch(Nanoseconds now, Changes changes) {
  iterations_ = static_cast<double>(launch_.value - epoch_launch_.value) / std::max(length_, 1.0);
  std::vector<ChunkRange> dense;
  heat_.next_epoch(dense);
  map(dense, Reason::sparse);
  judge_mistakes();
  note_density();
  const auto launches = static_cast<double>(launch_.value - epoch_launch_.value);
  if (!judge(static_cast<double>((now - epoch_began_).count()) * 1e-9 / std::max(launches, 1.0))) return;
  if (!acts(changes)) return;
  exchange();
  std::vector<ChunkRange> chunks, coming;
  for (const Planned& planned : in_) coming.push_back(planned.range);
  heat_.set_probes(books_.residency, coming, chunks);
  Cause cause;
  cause.reason = Reason::sparse;
  cause.launch = launch_;
  for (const ChunkRange& chunk : chunks) {
    if (const HeatBlock* block = heat_.block(chunk.allocation, chunk.first); block != nullptr)
      cause.span_class = static_cast<std::uint16_t>(block->span_class);
    writer_.advise(chunk, Advice::probe, cause);
  }
}

void SparseRanges::note_density() {
  for (const auto& [key, block] : heat_.blocks()) {
    const Density density = heat_.density(block.family);
    Density& noted = noted_[block.family];
    if (density == noted) continue;
    noted = density;
    const std::uint32_t probes = heat_.first_probes(block.family);
    const auto used = static_cast<std::uint32_t>(heat_.hot_share(block.family) * probes + 0.5);
    const std::string found = std::to_string(used) + " of " + std::to_string(probes) + " probed blocks were in use: ";
    writer_.note(block.range.allocation, kChunk * block.range.first.value, books_.residency.range_bytes(block.range),
                 found + (density == Density::dense
                              ? "it is used as a whole, and not probed again"
                              : "it is used sparsely; what is seen in use comes into HBM in exchange for what is not"),
                 cause_of(block, Reason::sparse));
  }
}

bool SparseRanges::judge(double seconds) {
  const bool probing = heat_.probes() > 0 || !open_.empty();
  const bool calm = hold_ > 0 || !watched_ || (!probing && calm_ < kCalmEpochs);
  if (calm) {
    before_ = calm_ == 0 ? seconds : before_ + (seconds - before_) / 2;
    ++calm_;
    slower_ = 0;
    if (hold_ > 0 && --hold_ == 0 && trial_) end_trial();
    return true;
  }
  // Probes that nobody used, and nothing that moved, cost nothing.
  slower_ = std::exchange(acted_, false) && seconds > before_ * kSlower ? slower_ + 1 : 0;
  if (slower_ < kSlowEpochs) return true;
  // The program may have become slower by itself, as what it uses now is on the host: a while without tells.
  std::vector<ChunkRange> probes;
  heat_.unset(probes);
  map(probes, Reason::watchdog);
  in_.clear();
  trial_ = true;
  hold_ = kTrialEpochs;
  slow_ = seconds;
  slower_ = calm_ = 0;
  return false;
}

void SparseRanges::end_trial() {
  trial_ = false;
  if (before_ > slow_ * kRelieved) {
    if (taken_back_ > 0) --taken_back_;
    return;
  }
  hold_ = kHoldOff << std::min(taken_back_, kMostTimes);
  ++taken_back_;
  const auto microseconds = [this](double time) {
    return std::to_string(static_cast<std::int64_t>(time * length_ * 1e6));
  };
  Cause cause;
  cause.reason = Reason::watchdog;
  writer_.note({}, {}, {},
               "with probes in sparse ranges an iteration took " + microseconds(slow_) + " us, and " +
                   microseconds(before_) + " us without: they are left alone for a while",
               cause);
}

void SparseRanges::judge_mistakes() {
  mistaken_ += kForgotten * (kMistaken - mistaken_);
  for (auto& [key, stay] : stays_) {
    if (stay.left == 0 || heat_.epoch() < stay.left + kRegret) continue;
    stay.left = 0;
    stay.mistakes /= 2;
    mistaken_ -= kNewsOfMistakes * mistaken_;
  }
}

Cause SparseRanges::cause_of(const HeatBlock& block, Reason reason) const {
  Cause cause;
  cause.reason = reason;
  cause.span_class = static_cast<std::uint16_t>(block.span_class);
  cause.launch = launch_;
  Piece piece;
  piece.crossings = heat_.hot_crossings(block);
  cause.worth = shown_worth(piece, costs_);
  return cause;
}

}  // namespace spillway::policy
