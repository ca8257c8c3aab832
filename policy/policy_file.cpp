#include "policy/policy_file.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "policy/rule_reader.hpp"
#include "policy/toml_document.hpp"
#include "policy/trace/frame.hpp"

namespace spillway::policy {
namespace {

using Kind = TomlNode::Kind;

std::string_view table_of(std::string_view key) { return key.substr(0, key.find('.')); }
std::string_view word_of(std::string_view key) { return key.substr(key.find('.') + 1); }

// The tables that settings live in, and [[rule]].
std::vector<std::string_view> known_tables() {
  std::vector<std::string_view> tables;
  for (const SettingRow& row : setting_table()) {
    if (tables.empty() || tables.back() != table_of(row.key)) tables.push_back(table_of(row.key));
  }
  tables.emplace_back("rule");
  return tables;
}

// Where a key would belong if it is a setting's under another table.
const SettingRow* find_by_word(std::string_view word) {
  for (const SettingRow& row : setting_table()) {
    if (word_of(row.key) == word) return &row;
  }
  return nullptr;
}

// What a value of the wrong TOML type should have been, or nothing if its type will do.
std::string wanted_type(const SettingRow& row, const TomlNode& value) {
  switch (row.kind) {
    case SettingKind::size_or_share:
      if (value.kind == Kind::text || value.kind == Kind::integer) return {};
      return "write a size or share in quotes, such as \"16GiB\" or \"80%\"";
    case SettingKind::choice:
      if (value.kind == Kind::text) return {};
      return "write one of these, in quotes: " + std::string(row.range);
    case SettingKind::boolean:
      return value.kind == Kind::boolean ? "" : "write true or false, without quotes";
    case SettingKind::number:
      return value.kind == Kind::integer ? "" : "write a whole number without quotes, " + std::string(row.range);
    case SettingKind::percent:
      if (value.kind == Kind::text || value.kind == Kind::integer || value.kind == Kind::number) return {};
      return "write a share such as \"5%\"";
    case SettingKind::text:
      return value.kind == Kind::text ? "" : "write text in quotes";
  }
  return {};
}

Kind kind_of(const SettingRow& row) {
  if (row.kind == SettingKind::boolean) return Kind::boolean;
  return row.kind == SettingKind::number ? Kind::integer : Kind::text;
}

void read_setting(const SettingRow& row, const TomlNode& value, Settings& settings, MistakeList& mistakes) {
  if (std::string wanted = wanted_type(row, value); !wanted.empty()) {
    mistakes.add(value.at, row.key, {"", value.text, wrong_kind(value.kind, kind_of(row)), std::move(wanted)});
    return;
  }
  if (auto problem = row.set(settings, value.text)) mistakes.add(value.at, row.key, std::move(*problem));
}

void read_setting_table(std::string_view table, const TomlNode& node, Settings& settings, MistakeList& mistakes) {
  std::vector<std::string_view> known;
  for (const SettingRow& row : setting_table()) {
    if (table_of(row.key) == table) known.push_back(word_of(row.key));
  }
  for (const TomlEntry& entry : node.entries) {
    if (const SettingRow* row = find_setting(std::string(table) + "." + entry.key)) {
      read_setting(*row, entry.value, settings, mistakes);
      continue;
    }
    const SettingRow* elsewhere = find_by_word(entry.key);
    std::string remedy = elsewhere != nullptr ? "it belongs under [" + std::string(table_of(elsewhere->key)) + "]"
                                              : suggestion(entry.key, known);
    mistakes.add(entry.at, "[" + std::string(table) + "]",
                 {"", entry.key, "is not a key of this table", std::move(remedy)});
  }
}

void unknown_at_top(const TomlEntry& entry, const std::vector<std::string_view>& tables, MistakeList& mistakes) {
  const bool is_table = entry.value.kind == Kind::table || entry.value.kind == Kind::list;
  const SettingRow* elsewhere = is_table ? nullptr : find_by_word(entry.key);
  std::string remedy = elsewhere != nullptr ? "it belongs under [" + std::string(table_of(elsewhere->key)) + "]"
                                            : suggestion(entry.key, tables);
  mistakes.add(
      entry.at, "",
      {"", entry.key, is_table ? "is not a table of a policy file" : "is outside every table", std::move(remedy)});
}

// Whether no line of the rule is a fault's: else what it lacks may stand there. A rule ends where the next begins.
bool is_whole(const std::vector<TomlNode>& rules, std::size_t rule, const std::vector<TomlFault>& faults) {
  return std::none_of(faults.begin(), faults.end(), [&](const TomlFault& fault) {
    return fault.at.line >= rules[rule].at.line &&
           (rule + 1 == rules.size() || fault.at.line < rules[rule + 1].at.line);
  });
}

// Gives the place of each rule that it read.
std::vector<TextPosition> read_rules(const TomlEntry& entry, const std::vector<TomlFault>& faults,
                                     std::vector<Rule>& rules, MistakeList& mistakes) {
  std::vector<TextPosition> places;
  if (entry.value.kind != Kind::list) {
    mistakes.add(entry.at, "rule",
                 {"", "", "is " + std::string(describe(entry.value.kind)) + ", not a list of tables",
                  "write [[rule]], with two brackets on each side"});
    return places;
  }
  const std::vector<TomlNode>& items = entry.value.items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const TomlNode& item = items[i];
    if (item.kind != Kind::table) {
      mistakes.add(item.at, "rule",
                   {"", item.text, wrong_kind(item.kind, Kind::table), "write [[rule]] and the rule's keys below it"});
      continue;
    }
    if (rules.size() == kMostRules) {
      mistakes.add(item.at, "rule",
                   {"", "", "is one more than the " + std::to_string(kMostRules) + " that a file may hold",
                    "join rules, with lists and patterns"});
      return places;
    }
    const auto number = static_cast<std::uint16_t>(rules.size() + 1);
    rules.push_back(read_rule(item, number, is_whole(items, i, faults), mistakes));
    places.push_back(item.at);
  }
  return places;
}

// Two rules with one name cannot be told apart in a report; two with one match are one too many.
void compare_rules(const std::vector<Rule>& rules, const std::vector<TextPosition>& places, MistakeList& mistakes) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const TextPosition at = places[i];
    const std::string subject =
        "rule " + (rules[i].name.empty() ? std::to_string(rules[i].number) : quoted(rules[i].name));
    for (std::size_t j = 0; j < i; ++j) {
      if (!rules[i].name.empty() && rules[j].name == rules[i].name) {
        mistakes.add(at, subject,
                     {"", "", "has the name of the rule in line " + std::to_string(rules[j].line),
                      "give each rule a name of its own"});
        break;
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (rules[j].match == rules[i].match && !(rules[i].match == RuleMatch())) {
        mistakes.add(at, subject,
                     {"", "",
                      "is never reached: the rule in line " + std::to_string(rules[j].line) +
                          " matches the same, and the first match wins",
                      "remove one of the two, or join them"});
        break;
      }
    }
  }
}

}  // namespace

PolicyFileReading read_policy_file(std::string_view text, std::string_view file_name) {
  PolicyFileReading reading;
  MistakeList mistakes(file_name);
  if (text.starts_with(std::string_view(trace::kMagic.data(), trace::kMagic.size()))) {
    mistakes.add({1, 1}, "", {"", "", "is a trace, not a policy file", "name a policy file (TOML) here"});
    reading.mistakes = mistakes.sorted();
    return reading;
  }
  if (text.size() > kLongestPolicyFile) {
    mistakes.add(
        {1, 1}, "",
        {"", "", "the file is longer than " + format_bytes(Bytes(kLongestPolicyFile)), "is this a policy file?"});
    reading.mistakes = mistakes.sorted();
    return reading;
  }
  const TomlDocument document = read_toml(text);
  for (const TomlFault& fault : document.faults) {
    mistakes.add(fault.at, "", {"", fault.line, "is not TOML: " + fault.description, fault.remedy});
  }
  const std::vector<std::string_view> tables = known_tables();
  for (const TomlEntry& entry : document.root.entries) {
    const bool known = std::find(tables.begin(), tables.end(), entry.key) != tables.end();
    if (!known) {
      unknown_at_top(entry, tables, mistakes);
    } else if (entry.key == "rule") {
      const std::vector<TextPosition> places = read_rules(entry, document.faults, reading.file.rules, mistakes);
      compare_rules(reading.file.rules, places, mistakes);
    } else if (entry.value.kind != Kind::table) {
      mistakes.add(entry.value.at, entry.key,
                   {"", entry.value.text, wrong_kind(entry.value.kind, Kind::table),
                    "write [" + entry.key + "] and its keys below it"});
    } else {
      read_setting_table(entry.key, entry.value, reading.file.settings, mistakes);
    }
  }
  reading.mistakes = mistakes.sorted();
  return reading;
}

}  // namespace spillway::policy
