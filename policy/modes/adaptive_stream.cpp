// Streaming ahead of use: when it is planned, tried, and given up.
#include <algorithm>
#include <cmath>
#include <string>

#include "policy/modes/adaptive.hpp"
#include "policy/stream_needs.hpp"

namespace spillway::policy {
namespace {

// A stretch must have time for a mark to be heard (a millisecond) and for calls of 32 MiB each way (3 ms).
constexpr double kLeastStretchSeconds = 2e-3;
// Iterations that one after the other use the same memory in the same way, this much of it.
constexpr double kAlikeIterations = 0.8;
constexpr double kLeastGain = 0.03;  // of the time, as it is estimated
constexpr std::uint32_t kMostLooks = 8;
constexpr std::uint64_t kHoldAfterFailure = 128;  // rounds, once for each failure so far
constexpr float kAlikeChunks = 0.05F;

bool alike(const StreamNeeds::Seconds& a, const StreamNeeds::Seconds& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (std::abs(a[k] - b[k]) > kAlikeChunks * (a[k] + b[k])) return false;
  }
  return true;
}

}  // namespace

// The first plan waits until its effect can be told, a few rounds; turns have a measure of their own.
void Adaptive::stream_at_once() {
  if (!streaming_.possible() || devices_.size() != 1 || hold_ > 0 || !in_.empty() || !open_.empty()) return;
  learn_latest(round());
  match_rules();
  left_out_ = 0;
  std::vector<Piece> pieces = pieces_of(devices_.front());
  const Exchange exchange = exchange_of(devices_.front(), pieces);
  const auto by_rule = [&pieces](std::uint32_t index) { return pieces[index].pinned != Piece::Pinned::no; };
  if (left_out_ > 0 || std::any_of(exchange.out.begin(), exchange.out.end(), by_rule) ||
      std::any_of(exchange.in.begin(), exchange.in.end(), by_rule))
    return;
  consider_streaming(0, exchange.seconds_saved);
  if (!streaming_.active()) return;
  planned_at_ = forecast_.launches().value;
  planned_rounds_ = 0;
  replan_ = changed_ = false;
  note_classes();
}

void Adaptive::consider_streaming(std::uint64_t rounds, double left) {
  if (!streaming_.possible() || streaming_.active() || rounds < stream_after_) return;
  // Looking takes milliseconds: where there was nothing to win, it is not looked at again soon.
  stream_after_ = rounds + (kSettledEvery << std::min(stream_looks_++, kMostLooks));
  if (devices_.size() != 1) return;
  const DeviceIndex device = devices_.front();
  const LaunchNumber last = forecast_.launches();
  const LaunchKnowledge known{book_, functions_, crossings_, costs_};
  for (std::uint64_t times = 1; times <= books_.settings.iteration_lookahead; times *= 2) {
    const LaunchCount length(round().count() * times);
    if (iterations_known(length) < 2) return;
    IterationProfile latest, before;
    cut_stretch(forecast_, book_, spans_, {last.value - 2 * length.count() + 1}, last, epoch_);
    latest.build(forecast_, book_, spans_, last, length, epoch_);
    before.build(forecast_, book_, spans_, {last.value - length.count()}, length, epoch_);
    const std::vector<LaunchTime> launches = launch_times(latest, forecast_, spans_, books_.residency, known);
    double seconds = 0;
    for (const LaunchTime& launch : launches) seconds += std::max(launch.compute, launch.link);
    if (left > kLeastGain * seconds) return;
    const std::vector<std::uint32_t> starts = cut_stretches(launches, kLeastStretchSeconds);
    if (starts.empty()) continue;
    UseCrossings crossings(known, spans_);
    const StreamNeeds needs(latest, spans_, crossings, starts, costs_);
    if (needs.alike(StreamNeeds(before, spans_, crossings, starts, costs_)) < kAlikeIterations) continue;
    begin_streaming(device, needs, launches, starts, length);
    return;
  }
}

// The planner's pieces, cut where neighbours are used at different times. What comes and goes, or is used in parts, is
// left to itself.
std::vector<StreamPiece> Adaptive::stream_pieces(DeviceIndex device, const StreamNeeds& needs,
                                                 std::uint64_t launches_a_stretch) {
  std::vector<StreamPiece> pieces;
  for (const Piece& piece : pieces_of(device)) {
    const AllocationId id = piece.range.allocation;
    const auto birth = births_.find(id);
    const bool transient = birth != births_.end() && birth->second.transient;
    const StreamNeeds::Seconds* latest = nullptr;
    for (std::uint32_t index = piece.range.first.value; index < piece.range.first.value + piece.range.count; ++index) {
      const StreamNeeds::Seconds& seconds = needs.of(id, {index});
      if (latest == nullptr || !alike(*latest, seconds)) {
        StreamPiece& made = pieces.emplace_back();
        made.range = {id, {index}, 0};
        made.in_hbm = piece.in_hbm;
        made.may_move = piece.may_stream && !transient && sparse_.heat().block(id, {index}) == nullptr;
        made.least_lead =
            static_cast<std::uint32_t>((piece.prefetch_distance + launches_a_stretch - 1) / launches_a_stretch);
      }
      StreamPiece& made = pieces.back();
      ++made.range.count;
      made.bytes += books_.residency.chunk_bytes(id, {index});
      for (std::size_t k = 0; k < seconds.size(); ++k) made.seconds[k] += seconds[k];
      latest = &seconds;
    }
  }
  return pieces;
}

void Adaptive::begin_streaming(DeviceIndex device, const StreamNeeds& needs, std::span<const LaunchTime> launches,
                               const std::vector<std::uint32_t>& starts, LaunchCount length) {
  const std::vector<StreamPiece> pieces =
      stream_pieces(device, needs, std::max<std::uint64_t>(length.count() / starts.size(), 1));
  const std::vector<Stretch> stretches = stretch_times(launches, starts);
  const Bytes reserve = std::max(transient_peak_, transient_peak_before_).saturating_minus(transient_in_hbm(device));
  StreamSchedule schedule = plan_streaming(pieces, stretches, books_.room(device).saturating_minus(reserve), costs_);
  if (schedule.turns == 0 || schedule.seconds_after > schedule.seconds_before * (1 - kLeastGain)) return;
  Streaming::Plan plan;
  plan.starts = starts;
  plan.seconds = std::move(schedule.seconds);
  plan.length = length;
  plan.limit = schedule.limit;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (schedule.pieces[i].turns != 0) plan.pieces.push_back({pieces[i].range, schedule.pieces[i], pieces[i].in_hbm});
  }
  const auto milliseconds = [](double seconds) { return std::to_string(std::lround(seconds * 1e3)) + " ms"; };
  writer_.note({}, {}, {},
               "streaming is tried: " + std::to_string(schedule.turns) + " pieces are to take turns in HBM in " +
                   std::to_string(starts.size()) + " stretches of " + std::to_string(length.count()) + " launches, " +
                   std::to_string(schedule.moved.count() >> 20U) + " MiB over the link; " +
                   milliseconds(schedule.seconds_after) + " are expected instead of " +
                   milliseconds(schedule.seconds_before),
               {});
  streams_since_ = forecast_.iterations();
  stream_looks_ = 0;
  ++streamed_;
  pace_.end_marks();
  streaming_.begin(std::move(plan), forecast_.launches());
}

void Adaptive::follow_schedule(LaunchNumber launch) {
  if (forecast_.period() == LaunchCount()) return end_streaming();
  if (forecast_.boundary()) {
    const std::uint64_t iterations = streaming_.length().count() / forecast_.period().count();
    if ((forecast_.iterations() - streams_since_) % std::max<std::uint64_t>(iterations, 1) == 0)
      streaming_.begins_again(launch);
  }
}

void Adaptive::turn(const Streaming::Turns& turns, Reason reason) {
  Cause cause;
  cause.reason = reason;
  out_.clear();
  in_.clear();
  for (const ChunkRange& range : turns.out) out_.push_back({range, Placement::host, cause});
  for (const ChunkRange& range : turns.in) in_.push_back({range, Placement::device, cause});
  pump();
}

void Adaptive::end_streaming() {
  if (!streaming_.active()) return;
  turn(streaming_.end(), Reason::turns_end);
  watchdog_.reset();
}

void Adaptive::device_passed(const MarkPassed& mark, Nanoseconds now) {
  if (const auto took = pace_.passed(mark, now)) judge(*took);
  const bool followed = streaming_.active();
  const Streaming::Phase before = streaming_.phase();
  const auto turns = streaming_.passed(mark, now);
  if (!followed) return;
  if (!mark.result.ok()) {
    if (turns) turn(*turns, Reason::turns_end);
    watchdog_.reset();
    return;
  }
  if (turns) turn(*turns, Reason::turn);
  const Streaming::Phase phase = streaming_.phase();
  if (phase == before) return;
  const auto took = [this](double seconds) {
    return std::to_string(streaming_.length().count()) + " launches " + std::to_string(std::lround(seconds * 1e6)) +
           " us";
  };
  if (phase == Streaming::Phase::taking_turns)
    writer_.note({}, {}, {}, "streaming begins: without it the device does " + took(streaming_.seconds_without()), {});
  if (phase == Streaming::Phase::kept)
    writer_.note({}, {}, {}, "streaming is kept: with it the device does " + took(streaming_.seconds_with()), {});
  if (phase == Streaming::Phase::failed) give_up_streaming();
}

void Adaptive::give_up_streaming() {
  const auto microseconds = [](double seconds) { return std::to_string(std::lround(seconds * 1e6)) + " us"; };
  Cause cause;
  cause.reason = Reason::watchdog;
  writer_.note({}, {}, {},
               "streaming ends: " + std::to_string(streaming_.length().count()) + " launches take " +
                   microseconds(streaming_.seconds_with()) + " with it and took " +
                   microseconds(streaming_.seconds_without()) + " without",
               cause);
  stream_after_ = forecast_.iterations() / iterations_in_round_ + kHoldAfterFailure * ++stream_failures_;
  end_streaming();
}

}  // namespace spillway::policy
