// What a span is for, learned from how it is used. A class explains a decision and breaks ties; the worth of residency,
// which places spans, comes from the uses themselves. Each class comes with its evidence in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/access_history.hpp"
#include "policy/iteration_profile.hpp"
#include "policy/span_class.hpp"
#include "policy/span_map.hpp"

namespace spillway::policy {

// The part of an iteration in which an optimizer runs, in positions; it may go round the end. Length 0: none.
struct OptimizerPhase {
  std::uint32_t first = 0;
  std::uint32_t length = 0;
  [[nodiscard]] bool holds(std::uint32_t position, std::uint32_t iteration) const {
    return length != 0 && (position + iteration - first) % iteration < length;
  }
};

class Classes {
 public:
  // Classifies every span of the profile, which is of that many iterations. Optimizer states are found without names:
  // their content is carried from one iteration to the next, yet nothing outside one short phase uses them.
  void learn(const IterationProfile& profile, std::uint64_t iterations, const AccessHistory& history,
             const SpanMap& spans);

  [[nodiscard]] SpanClass of(SpanId span) const;
  [[nodiscard]] OptimizerPhase optimizer_phase() const { return phase_; }
  // "used by 1 launch an iteration, always in the optimizer's phase (2% of the launches), ..."
  [[nodiscard]] std::string evidence(SpanId span, const AccessHistory& history, const FunctionBook& functions) const;
  // Bytes of the class among the spans last learned.
  [[nodiscard]] Bytes bytes(SpanClass span_class) const;

 private:
  using Positions = std::vector<std::uint32_t>;

  // Where one iteration uses the span: that of the profile which uses it most.
  [[nodiscard]] Positions positions(SpanId span, const IterationProfile& profile) const;
  [[nodiscard]] bool carried(const SpanHistory& known, const Positions& uses) const;
  void find_phase(const IterationProfile& profile, const AccessHistory& history);
  [[nodiscard]] double bytes_worked_on(const IterationProfile& profile, const AccessHistory& history) const;
  [[nodiscard]] SpanClass judge(SpanId span, const IterationProfile& profile, const AccessHistory& history) const;

  std::vector<SpanClass> classes_;  // by span id
  std::vector<Bytes> totals_;
  OptimizerPhase phase_;
  std::uint32_t length_ = 0;          // launches of the profile
  std::uint32_t iteration_ = 0;       // and of an iteration
  std::uint32_t most_attention_ = 0;  // uses of one span by attention, in an iteration
};

}  // namespace spillway::policy
