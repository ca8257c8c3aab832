#include "policy/rule_reader.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "policy/rule_keys.hpp"

namespace spillway::policy {
namespace {

using Kind = TomlNode::Kind;

constexpr std::int64_t kFarthestPrefetch = 1024;

std::string listed(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

// The number of a word among `words`.
std::optional<std::size_t> read_word(const TomlEntry& entry, std::span<const std::string_view> words,
                                     const std::string& subject, MistakeList& mistakes) {
  const std::string where = subject + ": " + entry.key;
  if (entry.value.kind != Kind::text) {
    mistakes.add(entry.value.at, where,
                 {"", entry.value.text, wrong_kind(entry.value.kind, Kind::text),
                  "write one of these, in quotes: " + listed(words)});
    return std::nullopt;
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == entry.value.text) return i;
  }
  const auto guess = nearest(entry.value.text, words);
  mistakes.add(entry.value.at, where,
               {"", entry.value.text,
                (entry.value.text.empty() ? "the value is empty, not one of: " : "is not one of: ") + listed(words),
                guess ? "did you mean " + quoted(*guess) + "?" : "write one of them"});
  return std::nullopt;
}

void read_name(const TomlEntry& entry, const std::string& subject, Rule& rule, MistakeList& mistakes) {
  if (entry.value.kind != Kind::text) {
    mistakes.add(entry.value.at, subject + ": name",
                 {"", entry.value.text, wrong_kind(entry.value.kind, Kind::text), "write text in quotes"});
  } else if (entry.value.text.empty()) {
    mistakes.add(entry.value.at, subject + ": name", {"", "", "the name is empty", "say what the rule is about"});
  } else {
    rule.name = entry.value.text;
  }
}

void read_action_key(const TomlEntry& entry, const std::string& subject, RuleAction& action, MistakeList& mistakes) {
  const TomlNode& value = entry.value;
  if (entry.key == "place") {
    if (const auto word = read_word(entry, rule_place_words(), subject, mistakes))
      action.place = static_cast<RulePlace>(*word);
  } else if (entry.key == "evict") {
    if (const auto word = read_word(entry, evict_words(), subject, mistakes))
      action.evict = static_cast<EvictClass>(*word);
  } else if (entry.key == "backing") {
    if (const auto word = read_word(entry, backing_words(), subject, mistakes))
      action.backing = static_cast<Backing>(*word);
  } else if (entry.key == "read_only") {
    if (value.kind == Kind::boolean) {
      action.read_only = value.boolean;
    } else {
      mistakes.add(value.at, subject + ": read_only",
                   {"", value.text, wrong_kind(value.kind, Kind::boolean), "write true or false, without quotes"});
    }
  } else if (entry.key == "prefetch_distance") {
    const std::string remedy = "write a whole number of launches, 1 to " + std::to_string(kFarthestPrefetch);
    if (value.kind != Kind::integer) {
      mistakes.add(value.at, subject + ": prefetch_distance",
                   {"", value.text, wrong_kind(value.kind, Kind::integer), remedy});
    } else if (value.integer < 1 || value.integer > kFarthestPrefetch) {
      mistakes.add(value.at, subject + ": prefetch_distance",
                   {"", value.text, value.integer < 1 ? "is too small" : "is too large", remedy});
    } else {
      action.prefetch_distance = static_cast<std::uint32_t>(value.integer);
    }
  }
}

// Actions that cannot both be done. One message each: the first key named is the one that is in vain.
void check_contradictions(const Rule& rule, TextPosition at, const std::string& subject, MistakeList& mistakes) {
  const RuleAction& action = rule.action;
  const auto contradiction = [&](std::string_view first, std::string_view second, std::string_view why) {
    mistakes.add(at, subject,
                 {"", "", std::string(first) + " contradicts " + std::string(second) + ": " + std::string(why),
                  "keep one of the two"});
  };
  if (action.backing == Backing::device) {
    constexpr std::string_view kPlain = "plain device memory never moves";
    if (action.place == RulePlace::host) contradiction("place = \"host\"", "backing = \"device\"", kPlain);
    if (action.place == RulePlace::stream) contradiction("place = \"stream\"", "backing = \"device\"", kPlain);
    if (action.prefetch_distance) contradiction("prefetch_distance", "backing = \"device\"", kPlain);
    if (action.evict) contradiction("evict", "backing = \"device\"", kPlain);
    if (action.read_only == true) contradiction("read_only = true", "backing = \"device\"", kPlain);
  }
  if (action.place == RulePlace::host) {
    constexpr std::string_view kStays = "it is never brought into device memory";
    if (action.prefetch_distance) contradiction("prefetch_distance", "place = \"host\"", kStays);
    if (action.evict) contradiction("evict", "place = \"host\"", kStays);
    if (action.read_only == true) contradiction("read_only = true", "place = \"host\"", kStays);
  }
  if (action.place == RulePlace::device) {
    constexpr std::string_view kStays = "it is never sent to host memory";
    if (action.prefetch_distance) contradiction("prefetch_distance", "place = \"device\"", kStays);
    if (action.evict == EvictClass::first) contradiction("evict = \"first\"", "place = \"device\"", kStays);
  }
  if (action.backing && !rule.match.known_at_allocation()) {
    mistakes.add(at, subject,
                 {"", "", "backing is decided when memory is asked for, before any kernel, argument or class is known",
                  "match on size, order, caller or device, or leave backing out"});
  }
}

}  // namespace

Rule read_rule(const TomlNode& table, std::uint16_t number, bool is_whole, MistakeList& mistakes) {
  Rule rule;
  rule.number = number;
  rule.line = table.at.line;
  std::string subject = "rule " + std::to_string(number);
  if (const TomlEntry* name = table.find("name")) {
    read_name(*name, subject, rule, mistakes);
    if (!rule.name.empty()) subject = "rule " + quoted(rule.name);
  } else if (is_whole) {
    mistakes.add(table.at, subject, {"", "", "has no name", "write name = \"...\", so that reports can name it"});
  }
  const std::vector<std::string_view> known = rule_key_names(RuleKeyPlace::rule);
  const std::vector<std::string_view> match_keys = rule_key_names(RuleKeyPlace::match);
  std::size_t actions = 0;
  for (const TomlEntry& entry : table.entries) {
    if (entry.key == "name") continue;
    if (entry.key == "match") {
      if (entry.value.kind == Kind::table) {
        rule.match = read_rule_match(entry.value, subject, mistakes);
      } else {
        mistakes.add(
            entry.value.at, subject + ": match",
            {"", entry.value.text, wrong_kind(entry.value.kind, Kind::table), "write match = { kernel = \"*adam*\" }"});
      }
    } else if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
      read_action_key(entry, subject, rule.action, mistakes);
      ++actions;
    } else {
      const bool of_match = std::find(match_keys.begin(), match_keys.end(), entry.key) != match_keys.end();
      mistakes.add(entry.at, subject,
                   {"", entry.key, "is not a key of a rule",
                    of_match ? "it belongs into match = { ... }" : suggestion(entry.key, known)});
      ++actions;  // perhaps a misspelt action: the rule is not without one
    }
  }
  if (is_whole && table.find("match") == nullptr) {
    mistakes.add(table.at, subject,
                 {"", "", "has no match", "say what it is for, such as match = { kernel = \"*adam*\" }"});
  }
  if (is_whole && actions == 0) {
    mistakes.add(table.at, subject,
                 {"", "", "does nothing", "add one of: place, read_only, prefetch_distance, evict, backing"});
  }
  check_contradictions(rule, table.at, subject, mistakes);
  return rule;
}

}  // namespace spillway::policy
