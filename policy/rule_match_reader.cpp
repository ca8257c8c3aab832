#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "policy/glob.hpp"
#include "policy/rule_keys.hpp"
#include "policy/rule_reader.hpp"
#include "policy/size_text.hpp"

namespace spillway::policy {
namespace {

using Kind = TomlNode::Kind;

// One key of a match, with what every message about it needs.
class MatchKey {
 public:
  MatchKey(const TomlEntry& entry, std::string_view subject, MistakeList& mistakes)
      : entry_(entry), where_(std::string(subject) + ": " + entry.key), mistakes_(mistakes) {}

  [[nodiscard]] const TomlNode& value() const { return entry_.value; }
  void mistake(const TomlNode& value, std::string problem, std::string remedy) const {
    mistakes_.add(value.at, where_, {"", value.text, std::move(problem), std::move(remedy)});
  }
  void wrong_type(const TomlNode& value, Kind wanted, std::string remedy) const {
    mistake(value, wrong_kind(value.kind, wanted), std::move(remedy));
  }

  // The items of a list, or the one value that stands for a list of one. An empty list matches nothing.
  [[nodiscard]] std::vector<const TomlNode*> one_or_more() const {
    if (value().kind != Kind::list) return {&value()};
    if (value().items.empty())
      mistake(value(), "the list is empty, and matches nothing", "list at least one, or leave the key out");
    std::vector<const TomlNode*> items;
    for (const TomlNode& item : value().items) items.push_back(&item);
    return items;
  }

 private:
  const TomlEntry& entry_;
  std::string where_;
  MistakeList& mistakes_;
};

std::string read_pattern(const MatchKey& key) {
  if (key.value().kind != Kind::text) {
    key.wrong_type(key.value(), Kind::text, "write a pattern in quotes, such as \"*adam*\"");
    return {};
  }
  if (auto problem = glob_problem(key.value().text)) {
    key.mistake(key.value(), *problem, "write a pattern such as \"*adam*\"; \\\\ takes the next character as it is");
    return {};
  }
  return key.value().text;
}

// Numbers 0 to `most`, each once.
template <class T, class Make>
std::vector<T> read_numbers(const MatchKey& key, std::int64_t most, Make make) {
  std::vector<T> out;
  const std::string remedy = "write a whole number from 0 to " + std::to_string(most) + ", or a list of them";
  for (const TomlNode* item : key.one_or_more()) {
    if (item->kind != Kind::integer) {
      key.wrong_type(*item, Kind::integer, remedy);
    } else if (item->integer < 0 || item->integer > most) {
      key.mistake(*item, item->integer < 0 ? "is negative" : "is too large", remedy);
    } else if (const T value = make(item->integer); std::find(out.begin(), out.end(), value) != out.end()) {
      key.mistake(*item, "is listed twice", "list it once");
    } else {
      out.push_back(value);
    }
  }
  return out;
}

std::vector<SpanClass> read_classes(const MatchKey& key) {
  std::vector<SpanClass> out;
  const std::vector<std::string_view> names(kSpanClassNames.begin(), kSpanClassNames.end());
  for (const TomlNode* item : key.one_or_more()) {
    const auto name = std::find(names.begin(), names.end(), item->text);
    if (item->kind != Kind::text) {
      key.wrong_type(*item, Kind::text, suggestion("", names));
    } else if (name == names.end()) {
      key.mistake(*item, "is not a class", suggestion(item->text, names));
    } else if (const auto value = static_cast<SpanClass>(name - names.begin());
               std::find(out.begin(), out.end(), value) != out.end()) {
      key.mistake(*item, "is listed twice", "list it once");
    } else {
      out.push_back(value);
    }
  }
  return out;
}

// "a..b", "a..", "..b" or "a" (both ends) into its two texts.
struct RangeText {
  std::string_view least;
  std::string_view most;
};
RangeText split_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {trimmed(text), trimmed(text)};
  return {trimmed(text.substr(0, dots)), trimmed(text.substr(dots + 2))};
}

constexpr std::string_view kSizeRangeRemedy = "write a range such as \"64MiB..1GiB\", \"64MiB..\" or \"..1GiB\"";

// Leaves `out` alone if there is nothing to read or it cannot be read; false in the second case.
bool read_size_end(const MatchKey& key, const TomlNode& value, std::string_view text, Bytes& out) {
  if (text.empty()) return true;
  const SizeReading reading = read_size(text);
  if (const std::string meant = meant_unit(text); !meant.empty()) {
    key.mistake(value, (text == value.text ? "" : "has " + quoted(text) + ", which ") + kBareNumber,
                "did you mean " + quoted(meant) + "?");
    return false;
  }
  if (reading.fault == SizeFault::none) {
    out = std::get<Bytes>(reading.value.value);
    return true;
  }
  key.mistake(value,
              text == value.text ? describe(reading.fault, "size")
                                 : "has " + quoted(text) + ", which " + describe(reading.fault, "size"),
              std::string(kSizeRangeRemedy));
  return false;
}

bool read_size_table(const MatchKey& key, RuleMatch& match) {
  bool good = true;
  for (const TomlEntry& end : key.value().entries) {
    const bool least = end.key == "min";
    if (!least && end.key != "max") {
      key.mistake(end.value, "stands at " + quoted(end.key) + ", which is neither min nor max",
                  std::string(kSizeRangeRemedy));
      good = false;
    } else if (end.value.kind != Kind::text && end.value.kind != Kind::integer) {
      key.wrong_type(end.value, Kind::text, "write a size in quotes, such as \"64MiB\"");
      good = false;
    } else {
      good = read_size_end(key, end.value, end.value.text.empty() ? " " : end.value.text,
                           least ? match.size_least : match.size_most) &&
             good;
    }
  }
  return good;
}

void read_size_range(const MatchKey& key, RuleMatch& match) {
  const TomlNode& value = key.value();
  RuleMatch read = match;
  bool good = true;
  if (value.kind == Kind::table) {
    if (value.entries.empty()) {
      key.mistake(value, "the table is empty", std::string(kSizeRangeRemedy));
      return;
    }
    good = read_size_table(key, read);
  } else if (value.kind == Kind::text || value.kind == Kind::integer) {
    const auto [least, most] = split_range(value.text);
    if (least.empty() && most.empty()) {
      key.mistake(value, value.text.empty() ? "the value is empty" : "has no end", std::string(kSizeRangeRemedy));
      return;
    }
    good = read_size_end(key, value, least, read.size_least);
    if (most != least || !good) good = read_size_end(key, value, most == least ? "" : most, read.size_most) && good;
    if (most == least) read.size_most = read.size_least;
  } else {
    key.wrong_type(value, Kind::text, std::string(kSizeRangeRemedy));
    return;
  }
  if (!good) return;
  if (read.size_least > read.size_most) {
    key.mistake(value, "is a range that ends before it begins", "write the smaller size first");
    return;
  }
  match = read;
}

constexpr std::string_view kOrderRemedy = "write a number from 1, or a range such as \"3..8\", \"3..\" or \"..8\"";

bool read_order_end(const MatchKey& key, std::string_view text, AllocationOrder& out) {
  if (text.empty()) return true;
  const DecimalReading reading = read_decimal(text);
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  std::string problem;
  if (reading.fault != SizeFault::none) {
    problem = describe(reading.fault, "number");
  } else if (text.find('.') != std::string_view::npos) {
    problem = "is not a whole number";
  } else if (reading.value < 1) {
    problem = "is too small";
  } else if (reading.value > kMost) {
    problem = "is too large";
  } else {
    out = {static_cast<std::uint32_t>(reading.value)};
    return true;
  }
  key.mistake(key.value(), text == key.value().text ? problem : "has " + quoted(text) + ", which " + problem,
              std::string(kOrderRemedy));
  return false;
}

void read_order(const MatchKey& key, RuleMatch& match) {
  const TomlNode& value = key.value();
  if (value.kind != Kind::text && value.kind != Kind::integer) {
    key.wrong_type(value, Kind::integer, std::string(kOrderRemedy));
    return;
  }
  const auto [first, last] = split_range(value.text);
  if (first.empty() && last.empty()) {
    key.mistake(value, value.text.empty() ? "the value is empty" : "has no end", std::string(kOrderRemedy));
    return;
  }
  RuleMatch read = match;
  bool good = read_order_end(key, first, read.order_first);
  if (last == first) {
    read.order_last = read.order_first;
  } else {
    good = read_order_end(key, last, read.order_last) && good;
  }
  if (!good) return;
  if (read.order_first > read.order_last) {
    key.mistake(value, "is a range that ends before it begins", "write the smaller number first");
    return;
  }
  match = read;
}

void read_match_key(const MatchKey& key, std::string_view name, RuleMatch& match) {
  if (name == "kernel") match.kernel = read_pattern(key);
  if (name == "caller") match.caller = read_pattern(key);
  if (name == "size") read_size_range(key, match);
  if (name == "order") read_order(key, match);
  if (name == "class") match.classes = read_classes(key);
  if (name == "argument") {
    match.arguments =
        read_numbers<std::uint16_t>(key, kLastArgument, [](std::int64_t n) { return static_cast<std::uint16_t>(n); });
  }
  if (name == "stream") {
    match.streams = read_numbers<StreamId>(key, std::numeric_limits<std::uint32_t>::max(),
                                           [](std::int64_t n) { return StreamId{static_cast<std::uint32_t>(n)}; });
  }
  if (name == "device") {
    match.devices =
        read_numbers<DeviceIndex>(key, 1023, [](std::int64_t n) { return DeviceIndex{static_cast<std::uint32_t>(n)}; });
  }
}

}  // namespace

RuleMatch read_rule_match(const TomlNode& table, std::string_view subject, MistakeList& mistakes) {
  RuleMatch match;
  const std::vector<std::string_view> known = rule_key_names(RuleKeyPlace::match);
  const std::vector<std::string_view> rule_keys = rule_key_names(RuleKeyPlace::rule);
  if (table.entries.empty()) {
    mistakes.add(table.at, std::string(subject) + ": match",
                 {"", "", "the table is empty", "say what the rule is for, such as match = { kernel = \"*adam*\" }"});
  }
  for (const TomlEntry& entry : table.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
      read_match_key(MatchKey(entry, subject, mistakes), entry.key, match);
      continue;
    }
    const bool of_rule = std::find(rule_keys.begin(), rule_keys.end(), entry.key) != rule_keys.end();
    mistakes.add(entry.at, std::string(subject) + ": match",
                 {"", entry.key, "is not a key of match",
                  of_rule ? "it belongs beside match, not into it" : suggestion(entry.key, known)});
  }
  return match;
}

}  // namespace spillway::policy
