#include "tools/idle_rules.hpp"

#include <algorithm>

namespace spillway::tools {
namespace {

using namespace policy;

std::string named(const Rule& rule) {
  return "rule " + policy::quoted(rule.name) + " (line " + std::to_string(rule.line) + ")";
}

// Of lists in which empty stands for any.
template <class T>
bool holds_all(const std::vector<T>& list, const std::vector<T>& of) {
  if (list.empty()) return true;
  return !of.empty() && std::all_of(of.begin(), of.end(), [&list](const T& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  });
}

bool holds_all(const std::string& pattern, const std::string& of) {
  return pattern.empty() || pattern == of || (pattern == "*" && !of.empty());
}

// Whether whatever meets `other` meets `match` too. Of two patterns nothing is told but that they are the same.
bool covers(const RuleMatch& match, const RuleMatch& other) {
  return holds_all(match.kernel, other.kernel) && holds_all(match.arguments, other.arguments) &&
         holds_all(match.classes, other.classes) && holds_all(match.streams, other.streams) &&
         match.size_least <= other.size_least && match.size_most >= other.size_most &&
         match.order_first.value <= other.order_first.value && match.order_last.value >= other.order_last.value &&
         holds_all(match.caller, other.caller) && holds_all(match.devices, other.devices);
}

void covered(const std::vector<Rule>& rules, std::vector<std::string>& notes) {
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    const auto earlier =
        std::find_if(rules.begin(), rule, [&](const Rule& other) { return covers(other.match, rule->match); });
    if (earlier != rule)
      notes.push_back(named(*rule) + " never acts: " + named(*earlier) +
                      " comes first and matches all that it matches; put the narrower rule first");
  }
}

bool wants_host(const Rule& rule) {
  return rule.action.place == RulePlace::host || rule.action.place == RulePlace::stream;
}

// Of what only launches tell, the first that the rule goes by.
const char* told_by_launches(const RuleMatch& match) {
  if (!match.kernel.empty()) return "a kernel";
  return !match.arguments.empty() ? "an argument" : "a class";
}

// What reads it and what does not, for one rule.
void of_rule(const Rule& rule, const Settings& settings, std::vector<std::string>& notes) {
  const auto note = [&](const std::string& what) { notes.push_back(named(rule) + ": " + what); };
  if (rule.action.read_only) note("read_only has no effect yet");
  if (rule.match.size_most < kChunk) {
    notes.push_back(named(rule) + " never acts: memory below " + format_bytes(kChunk) +
                    " is always plain device memory; let its size go beyond, or remove the rule");
    return;
  }
  if (settings.mode == ModeName::off) return;
  if (settings.mode != ModeName::adaptive && !rule.match.known_at_allocation()) {
    notes.push_back(named(rule) + " never acts: only mode adaptive goes by " + told_by_launches(rule.match));
    return;
  }
  if (wants_host(rule)) {
    const std::string place = rule.action.place == RulePlace::host ? "place = \"host\"" : "place = \"stream\"";
    if (settings.backing == BackingMode::device && rule.action.backing != Backing::managed)
      note(place + " has no effect: memory.backing = \"device\" makes all of it plain device memory");
    if (settings.host_budget.of(Bytes(~std::uint64_t{0})) == Bytes())
      note(place + " has no effect: memory.host_budget is 0, so nothing may lie on the host");
  }
  const bool streams = rule.action.place == RulePlace::stream;
  if (!streams && !rule.action.prefetch_distance) return;
  const std::string what = streams ? "place = \"stream\" is as host" : "prefetch_distance has no effect";
  if (settings.mode != ModeName::adaptive) {
    note(what + ": only mode adaptive streams");
  } else if (settings.iteration_lookahead == 0) {
    note(what + ": policy.iteration_lookahead = 0 switches streaming off");
  }
}

void window_beyond_budget(const Settings& settings, std::vector<std::string>& notes) {
  const Bytes* const window = std::get_if<Bytes>(&settings.window.value);
  const Bytes* const budget = settings.device_budget ? std::get_if<Bytes>(&settings.device_budget->value) : nullptr;
  if (window != nullptr && budget != nullptr && *window > *budget)
    notes.push_back("memory.window = " + policy::quoted(write_bytes(*window)) +
                    " is more than memory.device_budget = " + policy::quoted(write_bytes(*budget)) +
                    ", which ends first: leave memory.window out, or lower it");
}

}  // namespace

std::vector<std::string> said_in_vain(const PolicyFile& file) {
  std::vector<std::string> notes;
  if (file.settings.mode == ModeName::off && !file.rules.empty())
    notes.push_back("policy.mode = \"off\" acts on no rule: rules are only counted here");
  window_beyond_budget(file.settings, notes);
  covered(file.rules, notes);
  for (const Rule& rule : file.rules) of_rule(rule, file.settings, notes);
  return notes;
}

}  // namespace spillway::tools
