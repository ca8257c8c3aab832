// The plan: what the latest iterations used, cut into pieces, and the exchange that is worth its cost.
#include <algorithm>
#include <string>

#include "policy/modes/adaptive.hpp"
#include "policy/sparse_candidates.hpp"

namespace spillway::policy {
namespace {

// Epochs a cut stays without being used. As many as a plan looks at: what follows a cut of before would be taken to be
// unused, and be sent out first.
constexpr std::uint32_t kAgeAfter = ChunkNeeds::kMostIterations;

Pin pin_of(const Rule* rule) {
  if (rule == nullptr) return {};
  Pin pin{Piece::Pinned::no, rule->number, rule->action.evict.value_or(EvictClass::normal), true,
          rule->action.prefetch_distance.value_or(0)};
  switch (rule->action.place.value_or(RulePlace::automatic)) {
    case RulePlace::device:
      pin.pinned = Piece::Pinned::in_hbm;
      pin.may_stream = false;
      break;
    case RulePlace::host:
      pin.may_stream = false;
      [[fallthrough]];
    case RulePlace::stream:
      pin.pinned = Piece::Pinned::on_host;
      break;
    case RulePlace::automatic:
      break;
  }
  return pin;
}

}  // namespace

// Of this length, the latest included, that a plan may look at. One where there is no iteration.
std::uint64_t Adaptive::iterations_known(LaunchCount length) const {
  if (forecast_.period() == LaunchCount()) return 1;
  const std::uint64_t since = (forecast_.iterations() + 2) * forecast_.period().count();  // both that were judged too
  const std::uint64_t most = std::min(since, forecast_.remembered().count()) / length.count();
  return std::clamp<std::uint64_t>(most, 1, ChunkNeeds::kMostIterations);
}

void Adaptive::learn_latest(LaunchCount length) {
  length = std::min(length, forecast_.remembered());
  const std::uint64_t iterations = iterations_known(length);
  const LaunchNumber last = forecast_.launches();
  const std::uint64_t launches_back = std::min(iterations * length.count(), last.value);
  cut_stretch(forecast_, book_, spans_, {last.value - launches_back + 1}, last, epoch_);
  if (epoch_.value > kAgeAfter) spans_.age({epoch_.value - kAgeAfter});
  const LaunchKnowledge launches{book_, functions_, crossings_, costs_};
  UseCrossings crossings(launches, spans_);
  needs_.clear();
  for (std::uint64_t back = iterations; back-- > 0;) {
    profile_.build(forecast_, book_, spans_, {last.value - back * length.count()}, length, epoch_);
    needs_.add(profile_, spans_, crossings);
  }
  history_.iteration(profile_, launches, spans_, crossings);
  const std::uint64_t in_profile =
      forecast_.period() == LaunchCount() ? 1 : length.count() / forecast_.period().count();
  classes_.learn(profile_, std::max<std::uint64_t>(in_profile, 1), history_, spans_);
}

void Adaptive::profile_latest(LaunchCount length) {
  learn_latest(length);
  if (!sparse_.possible()) return;
  match_rules();
  const LaunchKnowledge launches{book_, functions_, crossings_, costs_};
  const Learned learned{profile_, history_, classes_, spans_, pins_, sparse_.heat(), needs_};
  std::vector<SparseRange> ranges = sparse_candidates(learned, launches);
  std::erase_if(ranges, [this](const SparseRange& range) {
    const Allocation* allocation = books_.allocations.find(range.chunks.allocation);
    return allocation == nullptr || pin_of(allocation->rule).pinned != Piece::Pinned::no;
  });
  sparse_.profile(ranges, profile_.length());
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

// What would be worth exchanging among these pieces, some of which it cuts.
Exchange Adaptive::exchange_of(DeviceIndex device, std::vector<Piece>& pieces) const {
  PlannerLimits limits;
  limits.room = books_.room(device);
  limits.reserve = std::max(transient_peak_, transient_peak_before_).saturating_minus(transient_in_hbm(device));
  limits.host_room = books_.host_room();
  return plan_exchange(pieces, limits, costs_);
}

void Adaptive::plan_device(DeviceIndex device, LaunchNumber launch) {
  std::vector<Piece> pieces = pieces_of(device);
  const Exchange exchange = exchange_of(device, pieces);
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
  stream_looks_ = 0;
  watchdog_.change();
  for (const std::uint32_t index : exchange.out) {
    const bool state = pieces[index].span_class == SpanClass::optimizer;
    out_.push_back(move(index, Placement::host, state ? Reason::learned_class : Reason::worth));
  }
  for (const std::uint32_t index : exchange.in) in_.push_back(move(index, Placement::device, Reason::worth));
}

// Without telemetry as well: the next run may have it.
UseFound Adaptive::found(AllocationId allocation) const {
  if (planned_at_ == 0) return UseFound::nothing;
  if (books_.settings.probes == Switch::off) return UseFound::as_whole;
  const Learned learned{profile_, history_, classes_, spans_, pins_, sparse_.heat(), needs_};
  const std::vector<SparseRange> ranges = sparse_candidates(learned, {book_, functions_, crossings_, costs_});
  const bool candidate = std::any_of(ranges.begin(), ranges.end(), [allocation](const SparseRange& range) {
    return range.chunks.allocation == allocation;
  });
  return candidate ? UseFound::in_parts : UseFound::as_whole;
}

void Adaptive::note_classes() {
  std::string text = "classes:";
  for (std::size_t i = 0; i < kSpanClassNames.size(); ++i) {
    const Bytes bytes = classes_.bytes(static_cast<SpanClass>(i));
    if (bytes < Bytes(1U << 20U)) continue;
    text += " " + std::string(kSpanClassNames[i]) + " " + std::to_string(bytes.count() >> 20U) + " MiB,";
  }
  text.pop_back();
  if (text == noted_classes_ || text == "classes") return;
  noted_classes_ = text;
  writer_.note({}, {}, {}, text, {});
}

}  // namespace spillway::policy
