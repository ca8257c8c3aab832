#include "policy/access_history.hpp"

#include <algorithm>

namespace spillway::policy {

SpanHistory& AccessHistory::entry(SpanId span, const Span& now) {
  if (span.value >= spans_.size()) {
    spans_.resize(span.value + std::size_t{1});
    seen_in_.resize(spans_.size());
  }
  SpanHistory& known = spans_[span.value];
  if (known.span.allocation != now.allocation || known.span.offset != now.offset) {
    known = {};
    seen_in_[span.value] = 0;
  }
  known.span = now;
  return known;
}

void AccessHistory::written_by_program(SpanId span, const SpanMap& spans) {
  const Span now = spans.span(span);
  if (now.allocation) ++entry(span, now).copies_in;
}

void AccessHistory::iteration(const IterationProfile& profile, const LaunchKnowledge& launches, const SpanMap& spans,
                              UseCrossings& crossings) {
  ++iterations_;
  for (const SpanId id : profile.spans()) {
    SpanHistory& known = entry(id, spans.span(id));
    // Stale by one iteration means: used then, and used now.
    known.in_a_row = seen_in_[id.value] + 1 == iterations_ ? known.in_a_row + 1 : 1;
    if (known.iterations == 0 && known.span.offset != Bytes()) {
      const SpanId before = spans.at(known.span.allocation, known.span.offset - Bytes(1));
      if (before.value < spans_.size() && spans_[before.value].attention_uses > 0) ++spans_[before.value].growth;
    }
    seen_in_[id.value] = iterations_;
    ++known.iterations;
    const auto uses = profile.uses(id);
    known.uses = static_cast<std::uint32_t>(uses.size());
    known.first = uses.front().position;
    known.last = uses.back().position;
    known.hull = static_cast<std::uint32_t>(profile.hull(id).count());
    known.functions = {};
    known.function_count = 0;
    known.argument_mask = 0;
    known.list_uses = known.attention_uses = known.sparse_uses = 0;
    for (const ProfiledUse& use : uses) {
      const LaunchSite& site = launches.book.site(use.shape);
      const FunctionKind kind = launches.functions.kind(site.function);
      const auto named = known.functions.begin() + std::min<std::ptrdiff_t>(known.function_count, 4);
      if (std::find(known.functions.begin(), named, site.function) == named && known.function_count < 5) {
        if (named != known.functions.end()) *named = site.function;
        ++known.function_count;
      }
      known.argument_mask |= std::uint32_t{1} << std::min<unsigned>(use.argument, 31);
      if (is_list_use(site, use.argument)) ++known.list_uses;
      if (kind == FunctionKind::attention) ++known.attention_uses;
      if (kind == FunctionKind::sparse) ++known.sparse_uses;
    }
    const SpanCrossings crossed = crossings.of(profile, id);
    known.crossings = crossed.all;
    known.most_crossings = crossed.most;
  }
}

const SpanHistory& AccessHistory::of(SpanId span) const {
  static const SpanHistory none;
  return span.value < spans_.size() ? spans_[span.value] : none;
}

}  // namespace spillway::policy
