#include "policy/toml_document.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

namespace {
// Thrown and caught in this file only.
struct BrokenAssumption {};
[[noreturn]] void broken_assumption() { throw BrokenAssumption(); }
}  // namespace

// The library asserts what a broken file does not keep (3.3 on the line "[=]"), and without assertions goes on to
// undefined behaviour. In somebody else's program neither will do: its assertions become a fault like any other, in
// every build.
#undef NDEBUG
#define TOML_ASSERT(holds) ((holds) ? static_cast<void>(0) : broken_assumption())
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 1
#include <toml++/toml.h>

#include "policy/size_text.hpp"

namespace spillway::policy {
namespace {

// Each fault costs one more pass over the text.
constexpr std::size_t kMostFaults = 20;
// A table whose header cannot be read still ends the table before it. No key of ours can look like this one.
constexpr std::string_view kLostTable = "[\"\\u0001lost ";

TextPosition position(const toml::source_position& at) {
  return {static_cast<std::uint32_t>(at.line), static_cast<std::uint32_t>(at.column)};
}

std::string number_text(double value) {
  std::array<char, 512> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

TomlNode convert(const toml::node& node);

TomlNode convert_table(const toml::table& table) {
  TomlNode out;
  for (const auto& [key, value] : table) {
    if (!key.str().empty() && key.str().front() == '\x01') continue;
    out.entries.push_back({std::string(key.str()), position(key.source().begin), convert(value)});
  }
  std::stable_sort(out.entries.begin(), out.entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) { return a.at < b.at; });
  return out;
}

TomlNode convert(const toml::node& node) {
  TomlNode out;
  using Kind = TomlNode::Kind;
  if (const toml::table* table = node.as_table()) {
    out = convert_table(*table);
  } else if (const toml::array* array = node.as_array()) {
    out.kind = Kind::list;
    for (const toml::node& item : *array) out.items.push_back(convert(item));
  } else if (const auto* text = node.as_string()) {
    out.kind = Kind::text;
    out.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    out.kind = Kind::integer;
    out.integer = integer->get();
    out.text = std::to_string(out.integer);
  } else if (const auto* number = node.as_floating_point()) {
    out.kind = Kind::number;
    out.text = number_text(number->get());
  } else if (const auto* boolean = node.as_boolean()) {
    out.kind = Kind::boolean;
    out.boolean = boolean->get();
    out.text = out.boolean ? "true" : "false";
  } else {
    out.kind = Kind::date;
    std::ostringstream written;
    node.visit([&](const auto& value) { written << value; });
    out.text = written.str();
  }
  out.at = position(node.source().begin);
  return out;
}

std::string one_line(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return out;
}

// "parsing decimal integer: expected digit, saw 'G'" with what was being read behind what is wrong with it.
std::string readable(std::string_view description) {
  constexpr std::string_view kPrefix = "Error while parsing ";
  std::string text = one_line(description);
  if (!text.starts_with(kPrefix)) return text;
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos) return text;
  return text.substr(colon + 2) + " (" + text.substr(kPrefix.size(), colon - kPrefix.size()) + ")";
}

bool broken_inline_table(std::string_view description) {
  return description.find("inline table") != std::string_view::npos &&
         description.find("'\\n'") != std::string_view::npos;
}

std::string remedy_for(std::string_view description) {
  if (broken_inline_table(description)) return "write all of { ... } on one line";
  for (const std::string_view sign : {"could not determine value type", "expected digit"}) {
    if (description.find(sign) != std::string_view::npos) return "write text, sizes and shares in quotes";
  }
  if (description.find("parsing string: unescaped control") != std::string_view::npos) {
    return "end the text with a quote on the same line";
  }
  if (description.find("cannot redefine existing table") != std::string_view::npos) return "put both under one header";
  if (description.find("cannot redefine") != std::string_view::npos) return "keep one of the two";
  return {};
}

// The begin and end of a line, the end of line left out; nothing if there is no such line.
struct LineSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};
std::optional<LineSpan> find_line(std::string_view text, std::uint32_t line) {
  std::size_t begin = 0;
  for (std::uint32_t i = 1; i < line; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string_view::npos) return std::nullopt;
    ++begin;
  }
  return LineSpan{begin, std::min(text.find('\n', begin), text.size())};
}

// Takes a line out of the text, but not its end, so that all positions stay. A line that seems to be a table's header
// becomes the header of a table that nobody asks for.
void blank_line(std::string& text, std::uint32_t line) {
  const auto span = find_line(text, line);
  if (!span) return;
  const std::size_t first = text.find_first_not_of(" \t", span->begin);
  const bool header = first < span->end && text[first] == '[';
  text.replace(span->begin, span->end - span->begin,
               header ? std::string(kLostTable) + std::to_string(line) + "\"]" : std::string());
}

// The first line below `above` whose bracket is followed by nothing that a name could begin with; if there is none, the
// first line, so that the search for further faults ends.
TextPosition find_bad_header(std::string_view text, std::uint32_t above) {
  constexpr std::string_view kNameStart = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-\"'";
  for (std::uint32_t line = above + 1;; ++line) {
    const auto span = find_line(text, line);
    if (!span) return {1, 1};
    const std::string_view content = text.substr(span->begin, span->end - span->begin);
    const std::size_t bracket = content.find_first_not_of(" \t");
    if (bracket == std::string_view::npos || content[bracket] != '[') continue;
    const std::size_t name = content.find_first_not_of("[ \t", bracket);
    if (name == std::string_view::npos) return {line, static_cast<std::uint32_t>(content.size() + 1)};
    if (kNameStart.find(content[name]) == std::string_view::npos) return {line, static_cast<std::uint32_t>(name + 1)};
  }
}

// The last line of an inline table that was broken over several: the first with a closing brace, unless another table
// begins before it.
std::uint32_t inline_table_end(std::string_view text, std::uint32_t line) {
  for (std::uint32_t next = line + 1; next < line + 20; ++next) {
    const auto span = find_line(text, next);
    if (!span) break;
    const std::string_view content = trimmed(text.substr(span->begin, span->end - span->begin));
    if (content.starts_with("[")) break;
    if (content.find('}') != std::string_view::npos) return next;
  }
  return line;
}

}  // namespace

const TomlEntry* TomlNode::find(std::string_view key) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const TomlEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

std::string_view describe(TomlNode::Kind kind) {
  switch (kind) {
    case TomlNode::Kind::text:
      return "text";
    case TomlNode::Kind::integer:
      return "a whole number";
    case TomlNode::Kind::number:
      return "a number with a fraction";
    case TomlNode::Kind::boolean:
      return "true or false";
    case TomlNode::Kind::date:
      return "a date";
    case TomlNode::Kind::list:
      return "a list";
    case TomlNode::Kind::table:
      return "a table";
  }
  return "something else";
}

TomlDocument read_toml(std::string_view text) {
  TomlDocument document;
  std::string remaining(text);
  std::uint32_t blanked = 0;
  while (document.faults.size() < kMostFaults) {
    TomlFault fault;
    bool inline_table = false;
    try {
      const toml::parse_result result = toml::parse(std::string_view(remaining));
      if (result) {
        document.root = convert_table(result.table());
        break;
      }
      const std::string_view description = result.error().description();
      fault = {position(result.error().source().begin), "", readable(description), remedy_for(description)};
      inline_table = broken_inline_table(description);
    } catch (const BrokenAssumption&) {
      fault = {find_bad_header(remaining, blanked), "",
               "expected the name of a table behind the bracket (table header)", ""};
    }
    const auto span = find_line(text, fault.at.line);
    if (span) fault.line = trimmed(text.substr(span->begin, span->end - span->begin));
    const std::uint32_t line = fault.at.line;
    document.faults.push_back(std::move(fault));
    // A fault that does not move down the text would be found for ever.
    if (line <= blanked) break;
    const std::uint32_t last = inline_table ? inline_table_end(text, line) : line;
    for (blanked = line; blanked < last; ++blanked) blank_line(remaining, blanked);
    blank_line(remaining, blanked);
  }
  return document;
}

}  // namespace spillway::policy
