// How often the bytes of a span would cross the link in an iteration, if they stayed on the host: summed over its uses,
// each by what kernel times have told (crossings.hpp), else by the kind of the function.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "policy/cost_table.hpp"
#include "policy/crossings.hpp"
#include "policy/function_book.hpp"
#include "policy/iteration_profile.hpp"
#include "policy/launch_book.hpp"
#include "policy/span_map.hpp"

namespace spillway::policy {

// So many pointers through one argument, and more, are a list of tensors.
inline constexpr std::size_t kListUse = 8;
// One of many tensors that the launch is given through one argument (a fused or foreach optimizer).
bool is_list_use(const LaunchSite& site, std::uint16_t argument);

// What launches and their kernels are known to do.
struct LaunchKnowledge {
  const LaunchBook& book;
  const FunctionBook& functions;
  const LearnedCrossings& crossings;
  const CostTable& costs;
};

struct SpanCrossings {
  double all = 0;   // of each byte, in an iteration
  double most = 0;  // of a single use
};

// For one plan: what is learned of a launch is looked up once.
class UseCrossings {
 public:
  UseCrossings(const LaunchKnowledge& known, const SpanMap& spans) : known_(known), spans_(spans) {}
  SpanCrossings of(const IterationProfile& profile, SpanId span);
  // Each use with the crossings of each byte in it: `visit(position, crossings)`.
  template <class Visit>
  void each(const IterationProfile& profile, SpanId span, const Visit& visit) {
    const ProfiledUse* before = nullptr;
    for (const ProfiledUse& use : profile.uses(span)) {
      if (before == nullptr || use.position - before->position > 1 || !goes_on(*before, use))
        visit(use.position, crossings(use));
      before = &use;
    }
  }

 private:
  [[nodiscard]] double crossings(const ProfiledUse& use);
  [[nodiscard]] bool goes_on(const ProfiledUse& before, const ProfiledUse& use) const;
  std::optional<double> measured(LaunchShapeId shape, const LaunchSite& site);

  LaunchKnowledge known_;
  const SpanMap& spans_;
  std::unordered_map<LaunchShapeId, std::optional<double>> evidence_;
};

}  // namespace spillway::policy
