// TOML text as a plain tree that remembers where everything stood, and every syntax error in it, not only the first.
// The one place that knows the TOML library; takes text, not a path, since policy has no file access.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::policy {

// Counted from 1; columns in characters.
struct TextPosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  friend auto operator<=>(TextPosition, TextPosition) = default;
};

struct TomlEntry;

struct TomlNode {
  enum class Kind : std::uint8_t { text, integer, number, boolean, date, list, table };
  Kind kind = Kind::table;
  TextPosition at;
  std::string text;                // of text: its content; of other single values: as written
  std::int64_t integer = 0;        // of an integer
  bool boolean = false;            // of a boolean
  std::vector<TomlNode> items;     // of a list
  std::vector<TomlEntry> entries;  // of a table, in the order of the text
  [[nodiscard]] const TomlEntry* find(std::string_view key) const;
};

struct TomlEntry {
  std::string key;
  TextPosition at;
  TomlNode value;
};

// "text", "a whole number", "a list": to follow "is".
std::string_view describe(TomlNode::Kind kind);
// "is a whole number, not text", to follow a value.
std::string wrong_kind(TomlNode::Kind kind, TomlNode::Kind wanted);

struct TomlFault {
  TextPosition at;
  std::string line;         // the text there, without blanks around it
  std::string description;  // one line: "expected digit, saw 'G' (decimal integer)"
  std::string remedy;       // empty if none is known
};

struct TomlDocument {
  TomlNode root;
  // With faults, `root` holds what the lines without them say: things may be missing from it, nothing is made up.
  std::vector<TomlFault> faults;
};

TomlDocument read_toml(std::string_view text);

}  // namespace spillway::policy
