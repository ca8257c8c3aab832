// Which rule applies, cheap enough for every pointer of every launch: names are matched once, when a function, library
// or allocation appears; after that a question is a few ANDs over one bit per rule. First match wins.
//
// Owned by the engine, under its lock. `function_seen` allocates; the questions do not.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/event.hpp"
#include "policy/glob.hpp"
#include "policy/rule.hpp"

namespace spillway::policy {

// A set of rules, by position.
class RuleSet {
 public:
  void add(std::size_t rule) { words_[rule / 64] |= std::uint64_t{1} << (rule % 64); }
  [[nodiscard]] bool has(std::size_t rule) const { return (words_[rule / 64] >> (rule % 64) & 1U) != 0; }
  RuleSet& operator&=(const RuleSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  // Position of the first, or kMostRules.
  [[nodiscard]] std::size_t first() const;
  friend bool operator==(const RuleSet&, const RuleSet&) = default;

 private:
  std::array<std::uint64_t, kMostRules / 64> words_{};
};

// What is known about the memory that a launch touches. The engine keeps `allocation` with each allocation.
struct TouchFacts {
  RuleSet allocation;  // from RuleMatcher::allocation_rules
  SpanClass span_class = SpanClass::unknown;
  StreamId stream;  // of the launch
};

class RuleMatcher {
 public:
  // At most kMostRules; the rest is ignored (the policy file's reader refuses more).
  explicit RuleMatcher(std::vector<Rule> rules);

  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  [[nodiscard]] bool empty() const { return rules_.empty(); }

  // Matches the name, mangled as the driver gives it, against every rule. A second call for the same id replaces.
  void function_seen(FunctionId function, std::string_view mangled);

  // The rule that decides when memory is asked for: the first whose conditions all hold and need no launch.
  // `caller` is the path of the calling library, empty if unknown.
  [[nodiscard]] const Rule* match_allocation(const AllocationRequested& request, std::string_view caller,
                                             AllocationOrder order) const;

  // Which rules this allocation's size, order, caller and device allow.
  [[nodiscard]] RuleSet allocation_rules(const AllocationRequested& request, std::string_view caller,
                                         AllocationOrder order) const;

  // The same questions answered with every rule whose conditions hold, the deciding one first: for reports.
  [[nodiscard]] RuleSet all_for_allocation(const AllocationRequested& request, const RuleSet& allocation) const;
  [[nodiscard]] RuleSet all_for_argument(FunctionId function, std::uint16_t argument, const TouchFacts& facts) const;

  // The rule for memory that `function` touches through parameter number `argument` (PointerArgument::index). A
  // function never seen matches only rules that name no kernel.
  [[nodiscard]] const Rule* match_argument(FunctionId function, std::uint16_t argument, const TouchFacts& facts) const;

 private:
  [[nodiscard]] const Rule* first_of(const RuleSet& set) const;
  [[nodiscard]] const RuleSet& stream_rules(StreamId stream) const;

  std::vector<Rule> rules_;
  std::vector<Glob> kernel_globs_;  // by rule
  std::vector<Glob> caller_globs_;
  RuleSet at_allocation_;  // need no launch
  RuleSet any_kernel_;
  RuleSet any_argument_;
  RuleSet any_stream_;
  std::vector<RuleSet> by_argument_;  // up to the highest number named
  std::array<RuleSet, kSpanClassNames.size()> by_class_;
  std::unordered_map<StreamId, RuleSet> by_stream_;  // streams that rules name
  std::unordered_map<FunctionId, RuleSet> by_function_;
};

}  // namespace spillway::policy
