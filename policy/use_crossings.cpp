#include "policy/use_crossings.hpp"

#include <algorithm>
#include <utility>

namespace spillway::policy {
namespace {

constexpr std::size_t kListUse = 8;

}  // namespace

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

SpanCrossings UseCrossings::of(const IterationProfile& profile, SpanId span) {
  SpanCrossings sum;
  const ProfiledUse* part = nullptr;  // the use before, if it was one of a list
  for (const ProfiledUse& use : profile.uses(span)) {
    const LaunchSite& site = known_.book.site(use.shape);
    const ProfiledUse* const before = std::exchange(part, nullptr);
    if (is_list_use(site, use.argument)) part = &use;
    // What is too large for one launch over a list goes on in the next one: each does its part.
    const bool goes_on = part != nullptr && before != nullptr && use.position - before->position <= 1 &&
                         known_.book.site(before->shape).function == site.function;
    if (goes_on) continue;
    const auto measured = this->measured(use.shape, site);
    const double crossings =
        measured ? *measured : default_crossings(known_.functions.kind(site.function), use.columns);
    sum.all += crossings;
    sum.most = std::max(sum.most, crossings);
  }
  return sum;
}

}  // namespace spillway::policy
