#include "policy/classes.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

// An optimizer's phase is at most this share of an iteration's launches.
constexpr double kLongestPhase = 0.4;
// And must hold this share of the bytes that look like its states: in a decoder every weight is used once an iteration
// as well, but all over it.
constexpr double kPhaseShare = 0.8;
// And of all bytes that an iteration uses: a table that a decoder looks up once a token is no optimizer's state.
constexpr double kLeastStates = 1.0 / 64;
// And works on weights and gradients, which the rest of the iteration uses too: at least this share of its states'
// bytes. The one launch of a decoder that reads its caches does not.
constexpr double kLeastWorkedOn = 1.0 / 8;
constexpr std::uint32_t kSteady = 2;  // iterations in a row before a span's content counts as carried over

// Launches from the first to the last of the positions, going round (the longest pause subtracted).
std::uint32_t hull(const std::vector<std::uint32_t>& positions, std::uint32_t iteration) {
  if (positions.empty()) return 0;
  std::uint32_t pause = positions.front() + iteration - positions.back();
  for (std::size_t i = 1; i < positions.size(); ++i) pause = std::max(pause, positions[i] - positions[i - 1]);
  return iteration - std::min(pause, iteration);
}

}  // namespace

Classes::Positions Classes::positions(SpanId span, const IterationProfile& profile) const {
  Positions most, these;
  std::uint32_t iteration = 0;
  const auto end_of_iteration = [&] {
    if (these.size() > most.size()) most = these;
    these.clear();
  };
  for (const ProfiledUse& use : profile.uses(span)) {
    if (use.position / iteration_ != iteration) end_of_iteration();
    iteration = use.position / iteration_;
    these.push_back(use.position % iteration_);
  }
  end_of_iteration();
  return most;
}

// Content that an iteration leaves for the next one: what is used once is neither made nor consumed within the
// iteration; what only launches with long pointer lists use belongs to a fused or foreach optimizer.
bool Classes::carried(const SpanHistory& known, const Positions& uses) const {
  // Used across more than the longest phase.
  if (known.in_a_row < kSteady || hull(uses, iteration_) > kLongestPhase * iteration_) return false;
  // What the program fills each time (a batch of input) is not carried.
  if (known.copies_in >= known.iterations) return false;
  return uses.size() == 1 || known.list_uses == known.uses;
}

void Classes::find_phase(const IterationProfile& profile, const AccessHistory& history) {
  phase_ = {};
  struct Seed {
    std::uint32_t position;
    double bytes;
  };
  std::vector<Seed> seeds;
  double total = 0, used = 0;
  for (const SpanId span : profile.spans()) {
    const SpanHistory& known = history.of(span);
    used += static_cast<double>(known.span.bytes.count());
    const Positions at = positions(span, profile);
    if (!carried(known, at)) continue;
    const auto bytes = static_cast<double>(known.span.bytes.count()) / static_cast<double>(at.size());
    for (const std::uint32_t position : at) {
      seeds.push_back({position, bytes});
      total += bytes;
    }
  }
  if (seeds.empty() || total < kLeastStates * used) return;
  std::stable_sort(seeds.begin(), seeds.end(), [](const Seed& a, const Seed& b) { return a.position < b.position; });
  // The shortest stretch, going round, that holds the share of bytes.
  const std::size_t count = seeds.size();
  std::uint32_t best = iteration_;
  double inside = 0;
  std::size_t end = 0;
  for (std::size_t begin = 0; begin < count; ++begin) {
    while (inside < kPhaseShare * total && end < begin + count) inside += seeds[end++ % count].bytes;
    if (inside < kPhaseShare * total) break;
    const std::uint32_t last = seeds[(end - 1) % count].position;
    const std::uint32_t stretch = (last + iteration_ - seeds[begin].position) % iteration_ + 1;
    if (stretch < best) {
      best = stretch;
      phase_ = {seeds[begin].position, stretch};
    }
    inside -= seeds[begin].bytes;
  }
  if (phase_.length > kLongestPhase * iteration_) {
    phase_ = {};
    return;
  }
  // Grow over seeds close by, so that the share cut off at the ends comes back.
  const std::uint32_t slack = std::max<std::uint32_t>(phase_.length / 2, 4);
  OptimizerPhase grown{(phase_.first + iteration_ - std::min(slack, iteration_)) % iteration_,
                       phase_.length + 2 * slack};
  if (grown.length < iteration_) {
    std::uint32_t first = slack, last = slack + phase_.length - 1;
    for (const Seed& seed : seeds) {
      if (!grown.holds(seed.position, iteration_)) continue;
      const std::uint32_t at = (seed.position + iteration_ - grown.first) % iteration_;
      first = std::min(first, at);
      last = std::max(last, at);
    }
    phase_ = {(grown.first + first) % iteration_, last - first + 1};
  }
  if (bytes_worked_on(profile, history) < kLeastWorkedOn * total) phase_ = {};
}

// Of spans that are used in the phase and outside.
double Classes::bytes_worked_on(const IterationProfile& profile, const AccessHistory& history) const {
  double bytes = 0;
  for (const SpanId span : profile.spans()) {
    const Positions at = positions(span, profile);
    const auto inside =
        std::count_if(at.begin(), at.end(), [this](std::uint32_t p) { return phase_.holds(p, iteration_); });
    if (inside > 0 && static_cast<std::size_t>(inside) < at.size())
      bytes += static_cast<double>(history.of(span).span.bytes.count());
  }
  return bytes;
}

SpanClass Classes::judge(SpanId span, const IterationProfile& profile, const AccessHistory& history) const {
  const SpanHistory& known = history.of(span);
  const Positions uses = positions(span, profile);
  std::uint32_t inside = 0;
  for (const std::uint32_t position : uses) inside += phase_.holds(position, iteration_) ? 1U : 0U;
  const auto outside = static_cast<std::uint32_t>(uses.size()) - inside;
  if (phase_.length != 0) {
    if (outside == 0)
      return known.in_a_row >= kSteady && known.copies_in < known.iterations ? SpanClass::optimizer
                                                                             : SpanClass::unknown;
    // The first use after the optimizer, as a share of the rest of the iteration: weights come at once, gradients late.
    double first = 1, last = 0;
    const double rest = iteration_ - phase_.length;
    for (const std::uint32_t position : uses) {
      if (phase_.holds(position, iteration_)) continue;
      const double at = ((position + iteration_ - phase_.first - phase_.length) % iteration_) / rest;
      first = std::min(first, at);
      last = std::max(last, at);
    }
    // A weight is used forward and backward; its gradient is made once, in the backward part.
    const bool made_late = first >= 0.3 && (outside == 1 || (outside == 2 && first >= 0.5));
    if (inside > 0) return made_late ? SpanClass::gradients : SpanClass::weights;
    if (last - first > 0.02 && known.function_count > 1) {
      return uses.size() > 32 ? SpanClass::workspace : SpanClass::activations;
    }
    return SpanClass::unknown;
  }
  // A layer's own: its launches are next to each other, or the iteration is several tokens and other memory is in all
  // of their attention.
  const bool of_a_layer = known.hull * 2 < length_ || known.attention_uses * 2 <= most_attention_;
  if (known.attention_uses > 0 && (known.growth > 0 || known.attention_uses * 2 >= known.uses) && of_a_layer) {
    return SpanClass::kv;
  }
  if (known.in_a_row >= kSteady && known.copies_in <= 1 && known.uses <= 2 && known.function_count <= 2)
    return SpanClass::weights;
  if (known.uses > 8 && known.function_count > 1) return SpanClass::workspace;
  return SpanClass::unknown;
}

void Classes::learn(const IterationProfile& profile, std::uint64_t iterations, const AccessHistory& history,
                    const SpanMap& spans) {
  length_ = static_cast<std::uint32_t>(profile.length().count());
  iteration_ = std::max<std::uint32_t>(length_ / static_cast<std::uint32_t>(iterations), 1);
  classes_.assign(spans.id_bound(), SpanClass::unknown);
  totals_.assign(kSpanClassNames.size(), {});
  most_attention_ = 0;
  for (const SpanId span : profile.spans())
    most_attention_ = std::max(most_attention_, history.of(span).attention_uses);
  find_phase(profile, history);
  for (const SpanId span : profile.spans()) {
    const SpanClass found = judge(span, profile, history);
    classes_[span.value] = found;
    totals_[static_cast<std::size_t>(found)] += spans.span(span).bytes;
  }
}

SpanClass Classes::of(SpanId span) const {
  return span.value < classes_.size() ? classes_[span.value] : SpanClass::unknown;
}

Bytes Classes::bytes(SpanClass span_class) const {
  const auto at = static_cast<std::size_t>(span_class);
  return at < totals_.size() ? totals_[at] : Bytes();
}

std::string Classes::evidence(SpanId span, const AccessHistory& history, const FunctionBook& functions) const {
  const SpanHistory& known = history.of(span);
  if (!known.span.allocation || length_ == 0) return "not used yet";
  std::string text = "used by " + std::to_string(known.uses) + " of " + std::to_string(length_) +
                     " launches an iteration, within " + std::to_string(100 * std::uint64_t{known.hull + 1} / length_) +
                     "% of it";
  if (of(span) == SpanClass::optimizer) text += ", only in the optimizer's phase, and kept between iterations";
  text += "; in " + std::to_string(known.iterations) + " iterations so far; by ";
  for (std::uint8_t i = 0; i < std::min<std::uint8_t>(known.function_count, 4); ++i) {
    if (i > 0) text += ", ";
    text += functions.label(known.functions[i]);
  }
  if (known.function_count > 4) text += " and others";
  if (known.copies_in > 0) text += "; filled by the program " + std::to_string(known.copies_in) + " times";
  return text;
}

}  // namespace spillway::policy
