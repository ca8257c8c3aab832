#include "policy/modes/adaptive.hpp"

#include <algorithm>
#include <string>

#include "policy/sparse_candidates.hpp"

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
// Plans once the layout is settled, in iterations.
constexpr std::uint64_t kSettledEvery = 16;
constexpr std::uint64_t kMostPatience = 8;  // iterations
constexpr double kHelped = 0.97;            // an iteration after taking back, of one before, at most
constexpr std::uint32_t kAgeAfter = 4;      // epochs a cut stays without being used
constexpr std::uint32_t kMostOpenOut = 4;   // four workers send out at once (17-23 GB/s against 10-15 for one)
constexpr std::uint32_t kMostOpenIn = 2;
constexpr std::uint64_t kMovingShare = 8;  // of the window: more is not moved at a time

std::uint64_t weight_of(LaunchShapeId shape, const LaunchBook& book) {
  if (!LaunchBook::is_graph(shape)) return 1;
  return std::max<std::uint64_t>(book.site(shape).kernels.size(), kLeastGraphWeight);
}

Pin pin_of(const Rule* rule) {
  if (rule == nullptr) return {};
  Pin pin{Piece::Pinned::no, rule->number, rule->action.evict.value_or(EvictClass::normal)};
  switch (rule->action.place.value_or(RulePlace::automatic)) {
    case RulePlace::device:
      pin.pinned = Piece::Pinned::in_hbm;
      break;
    case RulePlace::host:
    case RulePlace::stream:
      pin.pinned = Piece::Pinned::on_host;
      break;
    case RulePlace::automatic:
      break;
  }
  return pin;
}

constexpr std::uint32_t kHoldAfterMistake = 32;
constexpr std::size_t kMostTransientSizes = 4096;
constexpr std::uint64_t kQueueDepth = 1024;  // launches a program can be ahead of its device, graphs counted by weight

}  // namespace

Adaptive::Adaptive(Books& books, DecisionWriter& writer)
    : Arrival(books, writer), costs_(books.costs), sparse_(books, writer, books.costs) {}

bool Adaptive::spilling() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [this](DeviceIndex device) { return books_.residency.usage(device).on_host > Bytes(); });
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
  spans_.remove(allocation.id);
  const auto names = [&allocation](const PlannedMove& move) { return move.range.allocation == allocation.id; };
  std::erase_if(out_, names);
  std::erase_if(in_, names);
  std::erase_if(last_change_, names);
  std::erase_if(open_, names);
  last_moved_.erase(allocation.id);
  learn_transient(allocation);
}

void Adaptive::heard(const Event& event) {
  if (const auto* function = std::get_if<FunctionSeen>(&event.body))
    functions_.seen(function->function, function->name);
  if (const auto* timed = std::get_if<KernelTimed>(&event.body)) learn_time(*timed);
  sparse_.heard(event);
}

void Adaptive::learn_time(const KernelTimed& timed) {
  const LaunchSite& site = book_.site(forecast_.shape_at(timed.launch));
  const auto kind = launch_kind(site, spans_);
  if (!kind) return;
  touched_.clear();
  Bytes on_host;
  for (const NamedPointer& pointer : site.pointers) {
    const auto moved = last_moved_.find(pointer.allocation);
    const bool stayed = moved == last_moved_.end() || moved->second < timed.launch.value;
    if (!stayed || !books_.residency.holds(pointer.allocation) || books_.residency.moving(pointer.allocation)) return;
    const SpanId id = spans_.at(pointer.allocation, pointer.offset);
    if (std::find(touched_.begin(), touched_.end(), id) != touched_.end()) continue;
    touched_.push_back(id);
    const Span span = spans_.span(id);
    const std::vector<Chunk>& chunks = books_.residency.chunks(pointer.allocation);
    const std::uint64_t end = span.offset.count() + span.bytes.count();
    for (std::uint64_t at = span.offset.count(); at < end;) {
      const std::uint64_t chunk = at / kChunk.count();
      const std::uint64_t stop = std::min(end, (chunk + 1) * kChunk.count());
      if (chunk >= chunks.size()) return;
      if (!in_hbm(chunks[chunk].at)) on_host += Bytes(stop - at);
      at = stop;
    }
  }
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
  if (forecast_.candidate() != LaunchCount()) judge_candidate();
  if (forecast_.locks() != locks || forecast_.boundary()) {
    const bool whole = forecast_.locks() == locks;
    progress_ = {progress_.number + 1, use.launch, use.time, whole ? use.time - progress_.began_at : Nanoseconds()};
  }
  if (forecast_.locks() != locks) {
    watchdog_.reset();
    slow_.reset();
    iteration_began_ = use.time;
    locked_at_ = weight_;
  } else if (forecast_.boundary() && forecast_.iterations() % iterations_in_round_ == 0) {
    if (forecast_.period() < kShortPeriod &&
        stretch_overlap(forecast_, book_, spans_, use.launch, forecast_.period(), epoch_) < kSameMemory) {
      forecast_.drop();
      return;
    }
    const bool still = out_.empty() && in_.empty() && open_.empty() && !sparse_.moving();
    const auto moves = still ? Watchdog::Moves::settled : Watchdog::Moves::open;
    // Launches are seen when they are enqueued: until the queue is full, a program that never waits shows its own pace.
    const bool paced = weight_ >= locked_at_ + kQueueDepth;
    const Verdict verdict = paced ? watchdog_.iteration(use.time - iteration_began_, moves) : Verdict::none;
    iteration_began_ = use.time;
    if (verdict != Verdict::none && slow_)
      judge_taking_back();
    else if (verdict == Verdict::revert)
      take_back();
    end_of_iteration();
  } else if (forecast_.state() != ForecastState::locked && use.launch.value >= planned_at_ + kStretch && spilling()) {
    profile_latest(LaunchCount(kStretch));
    plan(use.launch);
  }
}

void Adaptive::judge_candidate() {
  const LaunchNumber last = forecast_.launches();
  const LaunchCount period = forecast_.candidate();
  if (stretch_overlap(forecast_, book_, spans_, last, period, epoch_) < kSameMemory) {
    forecast_.reject();
    return;
  }
  forecast_.accept();
  iterations_in_round_ = (kLeastRound + weight(last, period) - 1) / weight(last, period);
  writer_.note({}, {}, {}, "an iteration of " + std::to_string(period.count()) + " launches was found", {});
  // Both periods are iterations: learning from each tells what stays in between. A round has not been seen twice yet.
  if (iterations_in_round_ == 1) {
    profile_.build(forecast_, book_, spans_, {last.value - period.count()}, period, epoch_);
    UseCrossings crossings({book_, functions_, crossings_, costs_}, spans_);
    history_.iteration(profile_, {book_, functions_, crossings_, costs_}, spans_, crossings);
  }
  replan_ = true;
  end_of_iteration();
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

// Of this length, the latest included, that a plan may look at. One where there is no iteration.
std::uint64_t Adaptive::iterations_known(LaunchCount length) const {
  if (forecast_.period() == LaunchCount()) return 1;
  const std::uint64_t since = (forecast_.iterations() + 2) * forecast_.period().count();  // both that were judged too
  const std::uint64_t most = std::min(since, forecast_.remembered().count()) / length.count();
  return std::clamp<std::uint64_t>(most, 1, ChunkNeeds::kMostIterations);
}

void Adaptive::profile_latest(LaunchCount length) {
  epoch_ = {epoch_.value + 1};
  length = std::min(length, forecast_.remembered());
  const LaunchKnowledge launches{book_, functions_, crossings_, costs_};
  UseCrossings crossings(launches, spans_);
  needs_.clear();
  for (std::uint64_t back = iterations_known(length); back-- > 0;) {
    profile_.build(forecast_, book_, spans_, {forecast_.launches().value - back * length.count()}, length, epoch_);
    needs_.add(profile_, spans_, crossings);
  }
  history_.iteration(profile_, launches, spans_, crossings);
  if (epoch_.value > kAgeAfter) spans_.age({epoch_.value - kAgeAfter});
  classes_.learn(profile_, history_, spans_);
  if (!sparse_.possible()) return;
  match_rules();
  const Learned learned{profile_, history_, classes_, spans_, pins_, sparse_.heat(), needs_};
  std::vector<SparseRange> ranges = sparse_candidates(learned, launches);
  std::erase_if(ranges, [this](const SparseRange& range) {
    const Allocation* allocation = books_.allocations.find(range.chunks.allocation);
    return allocation == nullptr || pin_of(allocation->rule).pinned != Piece::Pinned::no;
  });
  sparse_.profile(ranges, profile_.length());
}

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

void Adaptive::end_of_iteration() {
  if (hold_ > 0) --hold_;
  if (!spilling()) return;
  const std::uint64_t rounds = forecast_.iterations() / iterations_in_round_;
  // The first plan waits for the time before it, so that it can be taken back as well.
  const auto patience = [this] { return kQueueDepth + kMostPatience * weight(forecast_.launches(), round()); };
  if (!watchdog_.has_baseline() && weight_ < locked_at_ + patience()) return;
  const bool due = replan_ || changed_ || rounds >= planned_rounds_ + kSettledEvery;
  // A change is judged before the next one is made, unless the memory itself has changed.
  if (!due || hold_ > 0 || !in_.empty() || !open_.empty() || (watchdog_.judging() && !replan_)) return;
  profile_latest(round());
  planned_rounds_ = rounds;
  plan(forecast_.launches());
  if (rounds == 0 || replan_) note_classes();
  replan_ = left_out_ > 0;
}

void Adaptive::plan(LaunchNumber launch) {
  planned_at_ = launch.value;
  out_.clear();
  in_.clear();
  left_out_ = 0;
  changed_ = false;
  match_rules();
  for (const DeviceIndex device : devices_) plan_device(device, launch);
  transient_peak_before_ = transient_peak_;
  transient_peak_ = transient_live_;
  pump();
}

// First match wins, over all uses of a span: the rule with the lowest number.
void Adaptive::match_rules() {
  pins_.clear();
  if (books_.rules.empty()) return;
  pins_.resize(spans_.id_bound());
  for (const SpanId span : profile_.spans()) {
    const Allocation* allocation = books_.allocations.find(spans_.span(span).allocation);
    if (allocation == nullptr) continue;
    const TouchFacts facts{allocation->rules, classes_.of(span), {}};
    const Rule* first = nullptr;
    for (const ProfiledUse& use : profile_.uses(span)) {
      const Rule* rule = books_.rules.match_argument(book_.site(use.shape).function, use.argument, facts);
      if (rule != nullptr && (first == nullptr || rule->number < first->number)) first = rule;
    }
    pins_[span.value] = pin_of(first);
  }
}

std::vector<Piece> Adaptive::pieces_of(DeviceIndex device) {
  std::vector<AllocationId> ids;
  for (const auto& [id, allocation] : books_.allocations.all()) {
    // What is younger than the profile has not had its chance to be used.
    const auto birth = births_.find(id);
    if (birth != births_.end() && birth->second.launch >= profile_.first_launch().value && birth->second.launch > 0)
      continue;
    if (allocation.device == device && allocation.life == AllocationLife::live && books_.residency.holds(id)) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end());  // the map's order is not the same everywhere
  std::vector<Piece> pieces;
  const Learned learned{profile_, history_, classes_, spans_, pins_, sparse_.heat(), needs_};
  for (const AllocationId id : ids) {
    const auto birth = births_.find(id);
    const LaunchNumber born{birth == births_.end() ? 0 : birth->second.launch};
    left_out_ += cut_pieces(id, born, pin_of(books_.allocations.find(id)->rule), learned, books_.residency, pieces);
  }
  return pieces;
}

// What comes and goes and is in HBM now has its room; what is on the host wants some when it comes again.
Bytes Adaptive::transient_in_hbm(DeviceIndex device) const {
  Bytes sum;
  for (const auto& [id, birth] : births_) {
    if (!birth.transient || !books_.residency.holds(id) || books_.residency.device(id) != device) continue;
    const std::vector<Chunk>& chunks = books_.residency.chunks(id);
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      if (in_hbm(chunks[index].at)) sum += books_.residency.chunk_bytes(id, {index});
    }
  }
  return sum;
}

void Adaptive::plan_device(DeviceIndex device, LaunchNumber launch) {
  std::vector<Piece> pieces = pieces_of(device);
  PlannerLimits limits;
  limits.room = books_.room(device);
  limits.reserve = std::max(transient_peak_, transient_peak_before_).saturating_minus(transient_in_hbm(device));
  limits.host_room = books_.host_room();
  const Exchange exchange = plan_exchange(pieces, limits, costs_);
  if (exchange.empty()) return;
  const auto move = [&](std::uint32_t index, Placement to, Reason reason) {
    const Piece& piece = pieces[index];
    Cause cause;
    cause.reason = reason;
    cause.span_class = static_cast<std::uint16_t>(piece.span_class);
    cause.worth = shown_worth(piece, costs_);
    cause.launch = launch;
    if (piece.pinned != Piece::Pinned::no) cause.reason = Reason::rule, cause.rule = piece.rule;
    return PlannedMove{piece.range, to, cause};
  };
  last_change_.clear();
  changed_ = true;
  watchdog_.change();
  for (const std::uint32_t index : exchange.out) {
    const bool state = pieces[index].span_class == SpanClass::optimizer;
    out_.push_back(move(index, Placement::host, state ? Reason::learned_class : Reason::worth));
  }
  for (const std::uint32_t index : exchange.in) in_.push_back(move(index, Placement::device, Reason::worth));
}

std::size_t Adaptive::open_to(Placement to) const {
  return static_cast<std::size_t>(
      std::count_if(open_.begin(), open_.end(), [to](const PlannedMove& move) { return move.to == to; }));
}

void Adaptive::pump() {
  const auto open = [this](const PlannedMove& move) {
    if (!writer_.move(move.range, move.to, Urgency::background, {}, {}, move.cause)) return;
    open_.push_back(move);
    last_change_.push_back(move);
  };
  // Room for plain memory can be made only of what is not moving.
  const auto few = [this](const PlannedMove& move) {
    const DeviceIndex device = books_.residency.device(move.range.allocation);
    const Bytes window = books_.residency.usage(device).held() + books_.room(device);
    return books_.residency.held_by_moves(device) <= Bytes(window.count() / kMovingShare);
  };
  while (!out_.empty() && open_to(Placement::host) < kMostOpenOut && (open_.empty() || few(out_.front()))) {
    const PlannedMove move = out_.front();
    out_.pop_front();
    open(move);
  }
  while (!in_.empty() && open_to(Placement::device) < kMostOpenIn && (open_.empty() || few(in_.front()))) {
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
    writer_.advise(move.range, Advice::unset_preferred, move.cause);
    open(move);
  }
}

void Adaptive::moved(const FinishedMove& move, MoveOutcome outcome) {
  sparse_.moved(move, outcome);
  last_moved_[move.range.allocation] = forecast_.launches().value;
  const auto ours = std::find_if(open_.begin(), open_.end(), [&move](const PlannedMove& planned) {
    return planned.range == move.range && planned.to == move.to;
  });
  if (ours == open_.end()) return;
  open_.erase(ours);
  pump();
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

void Adaptive::make_room(DeviceIndex device, Bytes bytes) {
  if (profile_.length() == LaunchCount()) return Arrival::make_room(device, bytes);
  std::vector<Piece> pieces = pieces_of(device);
  std::erase_if(pieces, [](const Piece& piece) { return !piece.in_hbm; });
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.crossings < b.crossings; });
  Bytes freed;
  for (const Piece& piece : pieces) {
    if (freed >= bytes) return;
    Cause cause;
    cause.reason = Reason::device_budget;
    cause.span_class = static_cast<std::uint16_t>(piece.span_class);
    cause.worth = shown_worth(piece, costs_);
    writer_.advise(piece.range, Advice::prefer_host, cause);
    if (writer_.move(piece.range, Placement::host, Urgency::blocking, {}, {}, cause)) freed += piece.bytes;
  }
  // What is too young to be planned goes last.
  if (freed < bytes) Arrival::make_room(device, bytes - freed);
}

void Adaptive::note_classes() {
  std::string text = "classes:";
  for (std::size_t i = 0; i < kSpanClassNames.size(); ++i) {
    const Bytes bytes = classes_.bytes(static_cast<SpanClass>(i));
    if (bytes == Bytes()) continue;
    text += " " + std::string(kSpanClassNames[i]) + " " + std::to_string(bytes.count() >> 20U) + " MiB,";
  }
  text.pop_back();
  if (text == noted_classes_) return;
  noted_classes_ = text;
  writer_.note({}, {}, {}, text, {});
}

}  // namespace spillway::policy
