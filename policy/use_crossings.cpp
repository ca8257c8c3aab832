#include "policy/use_crossings.hpp"

#include <algorithm>

namespace spillway::policy {
bool is_list_use(const LaunchSite& site, std::uint16_t argument) {
  if (site.pointers.size() < kListUse) return false;
  const auto same = std::count_if(site.pointers.begin(), site.pointers.end(),
                                  [argument](const NamedPointer& pointer) { return pointer.argument == argument; });
  return static_cast<std::size_t>(same) >= kListUse;
}

std::optional<double> UseCrossings::measured(LaunchShapeId shape, const LaunchSite& site) {
  const auto [entry, fresh] = evidence_.try_emplace(shape);
  if (!fresh) return entry->second;
  const FunctionKind of = known_.functions.kind(site.function);
  const bool in_part = of == FunctionKind::attention || of == FunctionKind::sparse;
  if (const auto kind = launch_kind(site, spans_)) {
    entry->second =
        in_part ? known_.crossings.in_part_of(*kind, known_.costs) : known_.crossings.of(*kind, known_.costs);
  }
  return entry->second;
}

// What is too large for one launch over a list goes on in the next one: each does its part. It may fill a launch of its
// own, so that only one of the two names many.
bool UseCrossings::goes_on(const ProfiledUse& before, const ProfiledUse& use) const {
  const LaunchSite& first = known_.book.site(before.shape);
  const LaunchSite& second = known_.book.site(use.shape);
  return first.function == second.function &&
         (is_list_use(first, before.argument) || is_list_use(second, use.argument));
}

double UseCrossings::crossings(const ProfiledUse& use) {
  const LaunchSite& site = known_.book.site(use.shape);
  const auto measured = this->measured(use.shape, site);
  return measured ? *measured : default_crossings(known_.functions.kind(site.function), use.columns);
}

SpanCrossings UseCrossings::of(const IterationProfile& profile, SpanId span) {
  SpanCrossings sum;
  each(profile, span, [&sum](std::uint32_t /*position*/, double crossings) {
    sum.all += crossings;
    sum.most = std::max(sum.most, crossings);
  });
  return sum;
}

}  // namespace spillway::policy
