#include "policy/policy_file_writer.hpp"

#include <cstddef>
#include <limits>
#include <vector>

#include "policy/rule_keys.hpp"

namespace spillway::policy {
namespace {

// As a basic TOML string. Bytes above ASCII pass as they are.
std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7F) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\u00";
      out += kHex[code >> 4U];
      out += kHex[code & 15U];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void comment(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string line = "# " + std::string(text.substr(0, end));
    // Control characters are as little allowed in a comment as anywhere else.
    for (char& c : line) {
      const auto code = static_cast<unsigned char>(c);
      if ((code < 0x20 && c != '\t') || code == 0x7F) c = ' ';
    }
    out += line + "\n";
    if (end == std::string_view::npos) break;
    text = text.substr(end + 1);
  }
}

std::string setting_value(const SettingRow& row, const Settings& settings) {
  const bool bare = row.kind == SettingKind::boolean || row.kind == SettingKind::number;
  return bare ? row.get(settings) : toml_text(row.get(settings));
}

void write_settings(std::string& out, const Settings& settings) {
  const Settings defaults;
  std::string_view table;
  for (const SettingRow& row : setting_table()) {
    const std::size_t dot = row.key.find('.');
    if (row.key.substr(0, dot) != table) {
      table = row.key.substr(0, dot);
      out += "\n[" + std::string(table) + "]\n";
    }
    const bool same = row.get(settings) == row.get(defaults);
    comment(out, row.sentence);
    // An unset size has no text of its own: an example stands there, out of force.
    const bool no_text = same && row.default_text.empty() && row.kind == SettingKind::size_or_share;
    const std::string value = no_text ? "\"80%\"" : setting_value(row, settings);
    out += (same ? "# " : "") + std::string(row.key.substr(dot + 1)) + " = " + value + "\n";
  }
}

// key = value pairs of an inline table.
class Pairs {
 public:
  void add(std::string_view key, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + std::string(key) + " = " + value;
  }
  [[nodiscard]] std::string table() const { return "{ " + text_ + " }"; }

 private:
  std::string text_;
};

// One value as it is, several as a list.
template <class T, class Write>
std::string list(const std::vector<T>& values, Write write) {
  if (values.size() == 1) return write(values.front());
  std::string out = "[";
  for (const T& value : values) out += (out.size() == 1 ? "" : ", ") + write(value);
  return out + "]";
}

std::string size_range(const RuleMatch& match) {
  if (match.size_least == match.size_most) return toml_text(write_bytes(match.size_least));
  const bool open = match.size_most == RuleMatch().size_most;
  return toml_text(write_bytes(match.size_least) + ".." + (open ? "" : write_bytes(match.size_most)));
}

std::string order_range(const RuleMatch& match) {
  if (match.order_first == match.order_last) return std::to_string(match.order_first.value);
  const bool open = match.order_last == RuleMatch().order_last;
  return toml_text(std::to_string(match.order_first.value) + ".." +
                   (open ? "" : std::to_string(match.order_last.value)));
}

std::string match_table(const RuleMatch& match) {
  const RuleMatch any;
  Pairs pairs;
  if (!match.kernel.empty()) pairs.add("kernel", toml_text(match.kernel));
  if (!match.arguments.empty()) {
    pairs.add("argument", list(match.arguments, [](std::uint16_t n) { return std::to_string(n); }));
  }
  // A rule for everything still needs one condition to be a rule that can be read.
  const bool everything = match == any;
  if (everything || match.size_least != any.size_least || match.size_most != any.size_most)
    pairs.add("size", size_range(match));
  if (match.order_first != any.order_first || match.order_last != any.order_last)
    pairs.add("order", order_range(match));
  if (!match.caller.empty()) pairs.add("caller", toml_text(match.caller));
  if (!match.classes.empty()) {
    pairs.add("class", list(match.classes, [](SpanClass c) {
                return toml_text(kSpanClassNames[static_cast<std::size_t>(c) % kSpanClassNames.size()]);
              }));
  }
  if (!match.streams.empty())
    pairs.add("stream", list(match.streams, [](StreamId s) { return std::to_string(s.value); }));
  if (!match.devices.empty()) {
    pairs.add("device", list(match.devices, [](DeviceIndex d) { return std::to_string(d.value); }));
  }
  return pairs.table();
}

void write_rule(std::string& out, const Rule& rule) {
  const RuleAction& action = rule.action;
  const auto line = [&](std::string_view key, const std::string& value) {
    out += std::string(key) + " = " + value + "\n";
  };
  const auto word = [](std::span<const std::string_view> words, auto value) {
    return toml_text(words[static_cast<std::size_t>(value) % words.size()]);
  };
  out += "[[rule]]\n";
  line("name", toml_text(rule.name));
  line("match", match_table(rule.match));
  if (action.place) line("place", word(rule_place_words(), *action.place));
  if (action.read_only) line("read_only", *action.read_only ? "true" : "false");
  if (action.prefetch_distance) line("prefetch_distance", std::to_string(*action.prefetch_distance));
  if (action.evict) line("evict", word(evict_words(), *action.evict));
  if (action.backing) line("backing", word(backing_words(), *action.backing));
}

}  // namespace

std::string write_policy_file(const PolicyFile& file, const PolicyFileComments& comments) {
  std::string out;
  comment(out, comments.title);
  write_settings(out, file.settings);
  for (std::size_t i = 0; i < file.rules.size(); ++i) {
    out += "\n";
    if (i < comments.rules.size()) comment(out, comments.rules[i]);
    write_rule(out, file.rules[i]);
  }
  return out;
}

}  // namespace spillway::policy
