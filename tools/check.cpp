#include "tools/check.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "policy/device_budget.hpp"
#include "tools/idle_rules.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;
using Json = nlohmann::ordered_json;

namespace {

std::string counted(std::uint64_t count, std::string_view thing) {
  return grouped(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

std::size_t changed_settings(const Settings& settings) {
  const Settings defaults;
  std::size_t changed = 0;
  for (const SettingRow& row : setting_table()) changed += row.get(settings) != row.get(defaults) ? 1U : 0U;
  return changed;
}

// A rule on classes says nothing in a trace that names none: the classes are learned by a run in mode adaptive. Nor
// does it in one that names some, as only what was moved has its class named.
bool cannot_be_judged(const Rule& rule, const RuleUse& use, const CoverageReport& coverage) {
  return !rule.match.classes.empty() && (use.allowed || !coverage.names_classes);
}

// "used", "dead", "taken" (its matches all go to an earlier rule) or "unjudged".
std::string_view verdict(const Rule& rule, const RuleUse& use, const CoverageReport& coverage) {
  if (!use.dead()) return "used";
  if (use.lost != 0) return "taken";
  return cannot_be_judged(rule, use, coverage) ? "unjudged" : "dead";
}

std::string dead_sentence(const Rule& rule, const RuleUse& use, const CheckedTrace& trace, const PolicyFile& file) {
  const std::string_view what = verdict(rule, use, trace.coverage);
  std::string out = "rule " + policy::quoted(rule.name) + " (line " + std::to_string(rule.line) + ") ";
  if (what == "taken") {
    const Rule& other = file.rules[use.lost_to - 1U];
    return out + "is dead here: all that it would match goes to rule " + policy::quoted(other.name) +
           ", which comes first";
  }
  if (what == "unjudged" && trace.coverage.names_classes) {
    return out +
           "asks for a class, and this trace names none for what it could match: to judge it, run under this file and "
           "see `spillway stats --by rule`";
  }
  if (what == "unjudged") {
    return out +
           "asks for a class, and this trace names none: to judge it, record a run in mode adaptive that spills and "
           "repeats (a smaller "
           "--device-budget, more steps)";
  }
  const std::string& kernel = rule.match.kernel;
  const bool one_name = !kernel.empty() && kernel.find_first_of("*?[\\") == std::string::npos;
  return out + "is dead here: nothing in this trace meets its conditions" +
         (one_name ? "; a pattern matches the whole name of a kernel: perhaps " + policy::quoted("*" + kernel + "*")
                   : "");
}

Json mistake_json(const PolicyMistake& mistake) {
  return {{"line", mistake.at.line},        {"column", mistake.at.column},        {"place", mistake.problem.place},
          {"value", mistake.problem.value}, {"problem", mistake.problem.problem}, {"remedy", mistake.problem.remedy},
          {"sentence", mistake.sentence()}};
}

Json rule_json(const Rule& rule, const std::optional<CheckedTrace>& trace) {
  Json out = {{"number", rule.number}, {"name", rule.name}, {"line", rule.line}};
  if (!trace) return out;
  const RuleUse& use = trace->coverage.rules[rule.number - 1U];
  out["allocations"] = use.allocations;
  out["bytes"] = use.bytes.count();
  out["launches"] = use.launches;
  out["verdict"] = verdict(rule, use, trace->coverage);
  if (use.lost_to != 0) out["lost_to"] = use.lost_to;
  return out;
}

// How the table counts, where that is not what one would expect.
std::string counting_notes(const PolicyFile& file, const CoverageReport& coverage) {
  std::string out;
  if (coverage.shared > 0)
    out +=
        "note: which rule comes first is decided kernel by kernel, so an allocation counts in every rule that decides "
        "it for some kernel; more than one does for " +
        counted(coverage.shared, "allocation") + "\n";
  if (coverage.small.allocations > 0)
    out += "note: a rule changes nothing for memory smaller than " + format_bytes(kChunk) +
           ", which stays plain device memory: " + counted(coverage.small.allocations, "allocation") +
           " of those with a rule, " + format_bytes(coverage.small.bytes) +
           " in all; a trace does not have which launches use it, so those count for no rule\n";
  const bool by_class =
      std::any_of(file.rules.begin(), file.rules.end(), [](const Rule& rule) { return !rule.match.classes.empty(); });
  if (by_class && coverage.names_classes)
    out +=
        "note: a trace names the class of memory only where the run moved it, so a rule on classes matches at least "
        "what is counted here, and more in a run; `spillway stats --by rule` on a run under this file says what it "
        "did\n";
  return out.empty() ? out : "\n" + out;
}

// What is pinned to a device beyond its budget cannot all stay there.
std::vector<std::string> pinned_beyond_budget(const PolicyFile& file, const CoverageReport& coverage) {
  std::vector<std::string> notes;
  for (const auto& [index, use] : coverage.pinned) {
    const Bytes budget = device_budget(file.settings, use.device);
    if (use.device.total == Bytes() || use.peak <= budget) continue;
    notes.push_back("rules with place = \"device\" hold " + format_bytes(use.peak) + " of device " +
                    std::to_string(index.value) + " at a time in this trace, and its budget is " +
                    format_bytes(budget) + ": not all of it can stay there");
  }
  return notes;
}

std::vector<std::string> notes_of(const PolicyFile& file, const std::optional<CheckedTrace>& trace) {
  std::vector<std::string> notes = said_in_vain(file);
  if (trace) {
    for (std::string& note : pinned_beyond_budget(file, trace->coverage)) notes.push_back(std::move(note));
  }
  return notes;
}

std::string coverage_text(const PolicyFile& file, const CheckedTrace& trace, std::size_t width) {
  const CoverageReport& coverage = trace.coverage;
  std::string out = "\n" + harmless(trace.path) + " (" + trace.state +
                    "): " + counted(coverage.allocations, "allocation") + " of " + format_bytes(coverage.bytes) + ", " +
                    grouped(coverage.launches) + (coverage.launches == 1 ? " launch" : " launches") + "\n\n";
  TextTable table({{"rule", Align::left}, {"line"}, {"allocations"}, {"bytes"}, {"launches"}});
  std::string dead;
  for (const Rule& rule : file.rules) {
    const RuleUse& use = coverage.rules[rule.number - 1U];
    table.add({harmless(rule.name), std::to_string(rule.line), grouped(use.allocations), format_bytes(use.bytes),
               grouped(use.launches)});
    if (use.dead()) dead += dead_sentence(rule, use, trace, file) + "\n";
  }
  table.add({"no rule", "", grouped(coverage.no_rule.allocations), format_bytes(coverage.no_rule.bytes), ""});
  return out + table.str(width) + counting_notes(file, coverage) + (dead.empty() ? "" : "\n" + dead);
}

}  // namespace

std::string mistakes_text(const PolicyFileReading& reading, std::string_view file_name) {
  std::string out;
  for (const PolicyMistake& mistake : reading.mistakes) out += mistake.sentence() + "\n";
  return out + std::string(file_name) + ": " + counted(reading.mistakes.size(), "mistake") + "\n";
}

std::string check_text(const PolicyFileReading& reading, std::string_view file_name,
                       const std::optional<CheckedTrace>& trace, std::size_t width) {
  const PolicyFile& file = reading.file;
  std::string out = std::string(file_name) + ": no mistakes; " + counted(changed_settings(file.settings), "setting") +
                    " changed, " + counted(file.rules.size(), "rule") + "\n";
  for (const std::string& note : notes_of(file, trace)) out += "note: " + note + "\n";
  if (trace) out += coverage_text(file, *trace, width);
  return out;
}

std::string check_json(const PolicyFileReading& reading, std::string_view file_name,
                       const std::optional<CheckedTrace>& trace) {
  Json out = {{"file", file_name}, {"ok", reading.ok()}, {"mistakes", Json::array()}, {"settings", Json::object()}};
  for (const PolicyMistake& mistake : reading.mistakes) out["mistakes"].push_back(mistake_json(mistake));
  for (const SettingRow& row : setting_table()) out["settings"][std::string(row.key)] = row.get(reading.file.settings);
  out["notes"] = notes_of(reading.file, trace);
  out["rules"] = Json::array();
  for (const Rule& rule : reading.file.rules) out["rules"].push_back(rule_json(rule, trace));
  if (trace) {
    const CoverageReport& coverage = trace->coverage;
    out["trace"] = {{"path", trace->path},
                    {"whole", trace->state == "whole"},
                    {"completeness", trace->state},
                    {"allocations", coverage.allocations},
                    {"bytes", coverage.bytes.count()},
                    {"launches", coverage.launches},
                    {"allocations_without_rule", coverage.no_rule.allocations},
                    {"bytes_without_rule", coverage.no_rule.bytes.count()},
                    {"small_allocations_with_rule", coverage.small.allocations},
                    {"small_bytes_with_rule", coverage.small.bytes.count()},
                    {"allocations_of_several_rules", coverage.shared},
                    {"names_classes", coverage.names_classes}};
  }
  // Names in a file or trace are bytes; what is no UTF-8 is replaced, not an exception.
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace spillway::tools
