#include "policy/modes/adaptive.hpp"

#include <algorithm>
#include <string>

#include "policy/chunk_parts.hpp"
#include "policy/queue_depth.hpp"

namespace spillway::policy {
namespace {

// Both periods of an iteration must share this much of what they touch (docs/design.md): layers of a model do not.
constexpr double kSameMemory = 0.6;
// Plans and judgements are made once a round of iterations, of this many launches at least: a loop of a few launches
// (the layers of a decoder over one pool) says nothing by itself, and is over before anything could move.
constexpr std::uint64_t kLeastRound = 32;
// What a graph launch counts for at least, if it has fewer kernels: it is a whole step of a program, most of which wait
// for the device now and then, and show their pace at once. A program that never waits can be ahead by more graph
// launches than any such number allows for.
constexpr std::uint64_t kLeastGraphWeight = 256;
// Without an iteration a plan is made from the latest launches, this many, each time as many have come.
constexpr std::uint64_t kStretch = 8192;
constexpr std::uint64_t kUnlockedRound = 512;  // launches, for sparse ranges
// A short iteration may have been one in another part of the program and go on in name only (layers whose launches look
// alike): it is looked at again each round.
constexpr LaunchCount kShortPeriod = LaunchCount(256);
constexpr std::uint64_t kMostPatience = 8;  // iterations

std::uint64_t weight_of(LaunchShapeId shape, const LaunchBook& book) {
  if (!LaunchBook::is_graph(shape)) return 1;
  return std::max<std::uint64_t>(book.site(shape).kernels.size(), kLeastGraphWeight);
}

// Of the window, for all that comes late and is not small: until a plan is made, the latest has so much of it.
constexpr std::uint64_t kDisplacedShare = 8;
constexpr std::size_t kMostTransientSizes = 4096;

}  // namespace

Adaptive::Adaptive(Books& books, DecisionWriter& writer)
    : Arrival(books, writer),
      costs_(books.costs),
      sparse_(books, writer, books.costs),
      streaming_(books, writer),
      pace_(writer) {}

bool Adaptive::spilling() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [this](DeviceIndex device) { return books_.residency.usage(device).on_host > Bytes(); });
}

bool Adaptive::displaces(const Allocation& allocation, Bytes missing) {
  if (allocation.bytes <= kSmall) return true;
  const Bytes window = books_.residency.usage(allocation.device).held() + books_.room(allocation.device);
  Bytes& displaced = displaced_[allocation.device];
  if (displaced + missing > Bytes(window.count() / kDisplacedShare)) return false;
  displaced += missing;
  return true;
}

void Adaptive::settled(const Allocation& allocation) {
  Arrival::settled(allocation);
  spans_.add(allocation.id, allocation.bytes);
  if (std::find(devices_.begin(), devices_.end(), allocation.device) == devices_.end()) {
    devices_.push_back(allocation.device);
  }
  Birth& birth = births_[allocation.id];
  birth.launch = forecast_.launches().value;
  birth.transient = transient_sizes_.contains(allocation.bytes.count());
  if (birth.transient) {
    transient_live_ += allocation.bytes;
    transient_peak_ = std::max(transient_peak_, transient_live_);
  } else {
    replan_ = true;
  }
}

void Adaptive::learn_transient(const Allocation& allocation) {
  const auto birth = births_.find(allocation.id);
  if (birth == births_.end()) return;
  const std::uint64_t life = forecast_.launches().value - birth->second.launch;
  if (birth->second.transient) {
    transient_live_ -= allocation.bytes;
  } else if (forecast_.period() != LaunchCount() && life < round().count() &&
             transient_sizes_.size() < kMostTransientSizes) {
    ++transient_sizes_[allocation.bytes.count()];
  } else {
    replan_ = true;
  }
  births_.erase(birth);
}

void Adaptive::freeing(const Allocation& allocation) {
  Arrival::freeing(allocation);
  sparse_.freeing(allocation.id);
  streaming_.freeing(allocation.id);
  spans_.remove(allocation.id);
  const auto names = [&allocation](const PlannedMove& move) { return move.range.allocation == allocation.id; };
  std::erase_if(out_, names);
  std::erase_if(in_, names);
  std::erase_if(last_change_, names);
  std::erase_if(open_, names);
  learn_transient(allocation);
}

void Adaptive::heard(const Event& event) {
  if (const auto* function = std::get_if<FunctionSeen>(&event.body))
    functions_.seen(function->function, function->name);
  if (const auto* timed = std::get_if<KernelTimed>(&event.body)) learn_time(*timed);
  if (const auto* mark = std::get_if<MarkPassed>(&event.body)) device_passed(*mark, event.time);
  if (const auto* freed = std::get_if<Freed>(&event.body)) {
    if (freed->result.ok()) last_moved_.erase(freed->allocation);  // a move may have ended since that was asked for
    // What was freed may have been all that moved, and others have waited for its room.
    pump();
  }
  sparse_.heard(event);
}

std::string Adaptive::check_invariants() const {
  const auto is_held = [this](const auto& entry) { return books_.residency.holds(entry.first); };
  const bool held = std::all_of(last_moved_.begin(), last_moved_.end(), is_held);
  return held ? "" : "moves of memory that is gone are remembered";
}

void Adaptive::learn_time(const KernelTimed& timed) {
  const LaunchSite& site = book_.site(forecast_.shape_at(timed.launch));
  const auto kind = launch_kind(site, spans_);
  if (!kind) return;
  touched_.clear();
  Bytes on_host;
  bool stayed = true;
  for (const NamedPointer& pointer : site.pointers) {
    if (!books_.residency.holds(pointer.allocation)) return;
    const SpanId id = spans_.at(pointer.allocation, pointer.offset);
    if (std::find(touched_.begin(), touched_.end(), id) != touched_.end()) continue;
    touched_.push_back(id);
    const Span span = spans_.span(id);
    const std::vector<Chunk>& chunks = books_.residency.chunks(pointer.allocation);
    const auto moved = last_moved_.find(pointer.allocation);
    each_chunk(span.offset, span.bytes, [&](std::uint32_t chunk, Bytes part) {
      const bool known = chunk < chunks.size() && !chunks[chunk].moving;
      stayed = stayed && known && (moved == last_moved_.end() || moved->second[chunk] < timed.launch.value);
      if (known && !in_hbm(chunks[chunk].at)) on_host += part;
    });
  }
  if (!stayed) return;
  crossings_.timed(*kind, on_host, timed.duration);
}

void Adaptive::used(const Use& use) {
  if (use.source == TouchSource::launch) {
    launched(use);
    if (sparse_.possible()) round_of_sparse_ranges(use);
  } else {
    learn_copy(use);
  }
}

void Adaptive::learn_copy(const Use& use) {
  for (std::size_t i = 0; i < use.touches.size(); ++i) {
    const Touch& touch = use.touches[i];
    if (!touch.managed) continue;
    touched_.clear();
    spans_.touch(touch.allocation, touch.offset, touch.bytes, epoch_, touched_);
    // The destination comes first; a copy within the device moves what the program has, it does not bring anything new.
    const bool source_known = use.touches.size() > 1 && use.touches[1].allocation;
    if (i == 0 && !touched_.empty() && !source_known) history_.written_by_program(touched_.front(), spans_);
  }
}

void Adaptive::learn_kernel(LaunchShapeId shape, FunctionId function, std::uint64_t threads,
                            std::span<const Touch> touches) {
  const std::uint64_t epoch = books_.allocations.epoch();
  if (!book_.stale(shape, epoch)) return;
  pointers_.clear();
  for (const Touch& touch : touches) {
    if (touch.managed) pointers_.push_back({touch.allocation, touch.offset, touch.bytes, touch.argument});
  }
  const bool streams = functions_.kind(function) == FunctionKind::other;
  book_.learn(shape, function, threads, epoch, pointers_, spans_, epoch_,
              streams ? Reaching::by_threads : Reaching::unknown);
}

LaunchShapeId Adaptive::learn_graph(const Use& use) {
  kernels_.clear();
  std::size_t at = 0;
  for (const GraphKernel& kernel : use.kernels) {
    learn_kernel(kernel.shape, kernel.function, kernel.threads, use.touches.subspan(at, kernel.touches));
    at += kernel.touches;
    kernels_.push_back(kernel.shape);
  }
  return book_.graph_shape(kernels_);
}

void Adaptive::launched(const Use& use) {
  const LaunchShapeId shape = use.shape ? use.shape : learn_graph(use);
  if (use.shape) learn_kernel(use.shape, use.function, use.threads, use.touches);
  const std::uint64_t locks = forecast_.locks();
  forecast_.launched(book_.site(shape).key, shape);
  weight_ += weight_of(shape, book_);
  if (forecast_.candidate() != LaunchCount()) judge_candidate(use.time);
  if (forecast_.locks() != locks || forecast_.boundary()) {
    const bool whole = forecast_.locks() == locks;
    progress_ = {progress_.number + 1, use.launch, use.time, whole ? use.time - progress_.began_at : Nanoseconds()};
  }
  if (streaming_.active()) follow_schedule(use.launch);
  if (forecast_.period() == LaunchCount()) pace_.end_marks();
  if (forecast_.locks() == locks && forecast_.boundary() && forecast_.iterations() % iterations_in_round_ == 0) {
    if (forecast_.period() < kShortPeriod && forecast_.iterations() + 2 >= 2 * iterations_in_round_ &&
        stretch_overlap(forecast_, book_, spans_, use.launch, round(), epoch_) < kSameMemory) {
      forecast_.drop();
      return;
    }
    const auto took = pace_.enqueued(use.time, LaunchCount(weight_));
    if (took && !streaming_.active()) judge(*took);
    ask_for_marks();
    end_of_round();
  } else if (forecast_.state() != ForecastState::locked && use.launch.value >= planned_at_ + kStretch && spilling()) {
    epoch_ = {epoch_.value + 1};
    profile_latest(LaunchCount(kStretch));
    plan(use.launch);
  }
}

void Adaptive::ask_for_marks() {
  if (streaming_.possible() && !streaming_.active() && spilling()) pace_.want_marks(round());
}

void Adaptive::judge_candidate(Nanoseconds now) {
  const LaunchNumber last = forecast_.launches();
  const LaunchCount period = forecast_.candidate();
  const std::uint64_t in_round = (kLeastRound + weight(last, period) - 1) / weight(last, period);
  if (stretch_overlap(forecast_, book_, spans_, last, LaunchCount(in_round * period.count()), epoch_) < kSameMemory) {
    forecast_.reject();
    return;
  }
  forecast_.accept();
  end_streaming();  // of the iteration before
  iterations_in_round_ = in_round;
  writer_.note({}, {}, {},
               "an iteration of " + std::to_string(period.count()) + (period.count() == 1 ? " launch" : " launches") +
                   " was found",
               {});
  // Both periods are iterations: learning from each tells what stays in between. Rounds of several are
  // learned from as they come.
  if (iterations_in_round_ == 1) {
    profile_.build(forecast_, book_, spans_, {last.value - period.count()}, period, epoch_);
    UseCrossings crossings({book_, functions_, crossings_, costs_}, spans_);
    history_.iteration(profile_, {book_, functions_, crossings_, costs_}, spans_, crossings);
  }
  replan_ = true;
  streamed_ = stream_looks_ = 0;
  if (stream_failures_ == 0) stream_after_ = 0;
  watchdog_.reset();
  slow_.reset();
  pace_.begin(last, now, LaunchCount(weight_));
  end_of_round();
  ask_for_marks();
}

// How much of a program the launches of a period are.
std::uint64_t Adaptive::weight(LaunchNumber last, LaunchCount period) const {
  std::uint64_t sum = 0;
  for (std::uint64_t back = 0; back < period.count(); ++back) {
    sum += weight_of(forecast_.shape_at({last.value - back}), book_);
  }
  return std::max<std::uint64_t>(sum, 1);
}

LaunchCount Adaptive::round() const { return LaunchCount(forecast_.period().count() * iterations_in_round_); }

void Adaptive::round_of_sparse_ranges(const Use& use) {
  const bool locked = forecast_.period() != LaunchCount();
  const bool over = locked ? forecast_.boundary() && forecast_.iterations() % iterations_in_round_ == 0
                           : use.launch.value % kUnlockedRound == 0;
  if (!over || !spilling()) return;
  // The first plan waits longer than probing has to.
  if (!sparse_.profiled() && locked && forecast_.iterations() >= 2 * iterations_in_round_) profile_latest(round());
  const bool judging = watchdog_.judging() || slow_;
  sparse_.round(use.time, use.launch, judging ? SparseRanges::Changes::held : SparseRanges::Changes::allowed);
}

void Adaptive::end_of_round() {
  epoch_ = {epoch_.value + 1};
  if (hold_ > 0) --hold_;
  if (!spilling()) return;
  const std::uint64_t rounds = forecast_.iterations() / iterations_in_round_;
  const std::uint64_t every =
      streaming_.active() ? kStreamingEvery << std::min(streamed_, kStreamingLongest) : kSettledEvery;
  const bool due = replan_ || changed_ || rounds >= planned_rounds_ + every;
  if (due && streaming_.active()) return end_streaming();
  // The first plan waits for the time before it, so that it can be taken back as well.
  const auto patience = [this] { return LaunchCount(kMostPatience * weight(forecast_.launches(), round())); };
  if (!watchdog_.has_baseline() && !pace_.told_by_launches(LaunchCount(weight_), patience())) {
    if (rounds == 0) stream_at_once();
    return;
  }
  if (!due && hold_ == 0 && in_.empty() && open_.empty() && !watchdog_.judging() && watchdog_.has_baseline())
    consider_streaming(rounds);
  // A change is judged before the next one is made, unless the memory itself has changed.
  if (!due || hold_ > 0 || !in_.empty() || !open_.empty() || (watchdog_.judging() && !replan_)) return;
  profile_latest(round());
  planned_rounds_ = rounds;
  plan(forecast_.launches());
  if (rounds == 0 || replan_) note_classes();
  replan_ = left_out_ > 0;
}

}  // namespace spillway::policy
