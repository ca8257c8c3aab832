#include "tools/names.hpp"

#include <array>

#include "policy/span_class.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

template <std::size_t Count, class Value>
const char* word(const std::array<const char*, Count>& words, Value value) {
  const auto at = static_cast<std::size_t>(value);
  return at < Count ? words[at] : "newer";
}

}  // namespace

const char* csv_name(AllocationKind kind) {
  static constexpr std::array kWords = {"linear",   "pitched", "stream_ordered", "program_managed", "physical",
                                        "imported", "array",   "unspillable",    "stretchable",     "pool_arena"};
  return word(kWords, kind);
}

const char* backing_name(Backing backing) {
  static constexpr std::array kWords = {"device", "managed"};
  return word(kWords, backing);
}

const char* placement_name(Placement placement) {
  static constexpr std::array kWords = {"unpopulated", "device", "host", "duplicated"};
  return word(kWords, placement);
}

const char* copy_name(CopyKind kind) {
  static constexpr std::array kWords = {"host_to_device", "device_to_host", "device_to_device", "unknown"};
  return word(kWords, kind);
}

const char* outcome_name(MoveOutcome outcome) {
  static constexpr std::array kWords = {"done", "failed", "cancelled"};
  return word(kWords, outcome);
}

const char* page_traffic_name(PageTraffic traffic) {
  static constexpr std::array kWords = {"host_to_device", "device_to_host", "gpu_fault", "cpu_fault", "remote_map"};
  return word(kWords, traffic);
}

const char* urgency_name(Urgency urgency) {
  static constexpr std::array kWords = {"background", "deadline", "blocking"};
  return word(kWords, urgency);
}

const char* decision_kind_name(const DecisionBody& body) {
  static constexpr std::array kWords = {"back", "refuse", "move", "advise", "cancel", "note", "mark"};
  static_assert(kWords.size() == std::variant_size_v<DecisionBody>);
  return word(kWords, body.index());
}

std::string iterations_text(const IterationsSeen& seen) {
  if (seen.whole == 0 && seen.begun == 0) return "none was found";
  const std::string rest = seen.begun == 0 ? "" : ", then " + grouped(seen.begun) + " (not whole)";
  return (seen.whole == 0 ? "none whole" : grouped(seen.whole) + " whole") + rest;
}

std::string policy_file_of(const trace::TraceHeader& header) {
  for (const auto& [key, value] : header.settings) {
    if (key == "policy.file") return value;
  }
  return {};
}

Settings settings_of(const trace::TraceHeader& header) {
  Settings settings;
  for (const auto& [key, value] : header.settings) static_cast<void>(set_setting(settings, key, value, key));
  return settings;
}

RuleWords rule_words(const trace::TraceHeader& header) {
  const std::string path = policy_file_of(header);
  const std::string file = path.substr(path.rfind('/') + 1);
  RuleWords words;
  for (const trace::RuleSeen& rule : header.rules)
    words.push_back(harmless('"' + rule.name + "\" (" + file + ":" + std::to_string(rule.line) + ")"));
  return words;
}

std::string span_class_name(std::uint16_t span_class) {
  return span_class < kSpanClassNames.size() ? std::string(kSpanClassNames[span_class])
                                             : "newer_" + std::to_string(span_class);
}

}  // namespace spillway::tools
