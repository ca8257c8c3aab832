// What is known of each span over the iterations: how it is used, by whom, how long it lives. Fed once an iteration
// from the profile, and from copies and fills as they come; read by classes and the planner.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "policy/iteration_profile.hpp"
#include "policy/span_map.hpp"
#include "policy/units.hpp"
#include "policy/use_crossings.hpp"

namespace spillway::policy {

struct SpanHistory {
  Span span;                     // as of the last iteration; a reused id starts anew
  std::uint32_t iterations = 0;  // in which it was used
  std::uint32_t in_a_row = 0;    // without a pause until now
  std::uint32_t uses = 0;        // in the last iteration
  std::uint32_t first = 0;       // positions in the last iteration
  std::uint32_t last = 0;
  std::uint32_t hull = 0;                 // launches from first to last use, going round
  std::array<FunctionId, 4> functions{};  // that used it in the last iteration
  std::uint8_t function_count = 0;        // capped at 5: more than the array names
  std::uint32_t argument_mask = 0;        // bit min(argument, 31)
  std::uint32_t list_uses = 0;            // uses by launches that name 8 spans or more through one argument
  std::uint32_t attention_uses = 0;
  std::uint32_t sparse_uses = 0;
  std::uint32_t copies_in = 0;  // host to device copies and fills that began here, all time
  std::uint32_t growth = 0;     // times the cut moved on by less than a chunk within its allocation
  double crossings = 0;         // of the last iteration, all uses
  double most_crossings = 0;    // of one use
};

class AccessHistory {
 public:
  void iteration(const IterationProfile& profile, const LaunchKnowledge& launches, const SpanMap& spans,
                 UseCrossings& crossings);
  void written_by_program(SpanId span, const SpanMap& spans);  // a copy or fill began here

  // Nothing known: a history with no span.
  [[nodiscard]] const SpanHistory& of(SpanId span) const;
  [[nodiscard]] std::uint32_t iterations() const { return iterations_; }

 private:
  SpanHistory& entry(SpanId span, const Span& now);

  std::vector<SpanHistory> spans_;      // by id
  std::vector<std::uint32_t> seen_in_;  // by id: number of the last iteration that used it
  std::uint32_t iterations_ = 0;
};

}  // namespace spillway::policy
