#include "policy/rule_matcher.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "policy/demangle.hpp"

namespace spillway::policy {
namespace {

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

template <class T>
bool allows(const std::vector<T>& listed, const T& value) {
  return listed.empty() || std::find(listed.begin(), listed.end(), value) != listed.end();
}

}  // namespace

std::size_t RuleSet::first() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != 0) return i * 64 + static_cast<std::size_t>(std::countr_zero(words_[i]));
  }
  return kMostRules;
}

RuleMatcher::RuleMatcher(std::vector<Rule> rules) : rules_(std::move(rules)) {
  if (rules_.size() > kMostRules) rules_.resize(kMostRules);
  std::size_t arguments = 0;
  for (const Rule& rule : rules_) {
    for (const std::uint16_t argument : rule.match.arguments)
      arguments = std::max<std::size_t>(arguments, argument + 1U);
    for (const StreamId stream : rule.match.streams) by_stream_.try_emplace(stream);
  }
  by_argument_.resize(arguments);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const RuleMatch& match = rules_[i].match;
    // An empty pattern means "any", and the globs are asked only where there is one.
    kernel_globs_.emplace_back(match.kernel);
    caller_globs_.emplace_back(match.caller);
    if (match.known_at_allocation()) at_allocation_.add(i);
    if (match.kernel.empty()) any_kernel_.add(i);
    if (match.arguments.empty()) any_argument_.add(i);
    if (match.streams.empty()) any_stream_.add(i);
    for (std::size_t argument = 0; argument < arguments; ++argument) {
      if (allows(match.arguments, static_cast<std::uint16_t>(argument))) by_argument_[argument].add(i);
    }
    for (std::size_t number = 0; number < by_class_.size(); ++number) {
      if (allows(match.classes, static_cast<SpanClass>(number))) by_class_[number].add(i);
    }
    for (auto& [stream, set] : by_stream_) {
      if (allows(match.streams, stream)) set.add(i);
    }
  }
}

void RuleMatcher::function_seen(FunctionId function, std::string_view mangled) {
  RuleSet set = any_kernel_;
  const std::string readable = demangled(mangled);
  const std::string bare = bare_function_name(readable);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].match.kernel.empty()) continue;
    const Glob& glob = kernel_globs_[i];
    if (glob.matches(mangled) || glob.matches(readable) || glob.matches(bare)) set.add(i);
  }
  by_function_[function] = set;
}

RuleSet RuleMatcher::allocation_rules(const AllocationRequested& request, std::string_view caller,
                                      AllocationOrder order) const {
  RuleSet set;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const RuleMatch& match = rules_[i].match;
    if (request.bytes < match.size_least || request.bytes > match.size_most) continue;
    if (order < match.order_first || order > match.order_last) continue;
    if (!allows(match.devices, request.device)) continue;
    if (!match.caller.empty() && !caller_globs_[i].matches(caller) && !caller_globs_[i].matches(file_name(caller)))
      continue;
    set.add(i);
  }
  return set;
}

RuleSet RuleMatcher::all_for_allocation(const AllocationRequested& request, const RuleSet& allocation) const {
  RuleSet set = allocation;
  set &= at_allocation_;
  // Plain allocations belong to no stream: a rule that names one waits for the launch.
  set &= request.kind == AllocationKind::stream_ordered ? stream_rules(request.stream) : any_stream_;
  return set;
}

const Rule* RuleMatcher::match_allocation(const AllocationRequested& request, std::string_view caller,
                                          AllocationOrder order) const {
  if (rules_.empty()) return nullptr;
  return first_of(all_for_allocation(request, allocation_rules(request, caller, order)));
}

RuleSet RuleMatcher::all_for_argument(FunctionId function, std::uint16_t argument, const TouchFacts& facts) const {
  RuleSet set = facts.allocation;
  const auto known = by_function_.find(function);
  set &= known == by_function_.end() ? any_kernel_ : known->second;
  set &= argument < by_argument_.size() ? by_argument_[argument] : any_argument_;
  const auto number = static_cast<std::size_t>(facts.span_class);
  set &= by_class_[number < by_class_.size() ? number : 0];
  set &= stream_rules(facts.stream);
  return set;
}

const Rule* RuleMatcher::match_argument(FunctionId function, std::uint16_t argument, const TouchFacts& facts) const {
  if (rules_.empty()) return nullptr;
  return first_of(all_for_argument(function, argument, facts));
}

const RuleSet& RuleMatcher::stream_rules(StreamId stream) const {
  const auto named = by_stream_.find(stream);
  return named == by_stream_.end() ? any_stream_ : named->second;
}

const Rule* RuleMatcher::first_of(const RuleSet& set) const {
  const std::size_t position = set.first();
  return position < rules_.size() ? &rules_[position] : nullptr;
}

}  // namespace spillway::policy
