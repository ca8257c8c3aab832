#include "policy/cost_file.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "policy/settings.hpp"
#include "policy/toml_document.hpp"

namespace spillway::policy {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::string_view kAnew = "; measure anew with `spillway probe`";

std::string place(TextPosition at) { return "line " + std::to_string(at.line) + ": "; }

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < ' ' ? '?' : letter;
  }
  return out + '"';
}

// One cost into the table, or what is wrong with it.
std::string read_cost(const TomlEntry& entry, CostTable& costs) {
  const auto rows = cost_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const CostRow& r) { return r.key == entry.key; });
  if (row == rows.end()) return place(entry.at) + quoted(entry.key) + " is no cost" + std::string(kAnew);
  const std::string& text = entry.value.text;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = entry.value.kind == TomlNode::Kind::integer || entry.value.kind == TomlNode::Kind::number;
  if (!number || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !possible_cost(*row, value)) {
    return place(entry.at) + entry.key + " is " + quoted(text) + ", not a number of " + std::string(row->unit) +
           " that a machine can have" + std::string(kAnew);
  }
  costs.*(row->field) = value;
  return {};
}

std::string text_of(const TomlNode& root, std::string_view key) {
  const TomlEntry* entry = root.find(key);
  return entry != nullptr && entry->value.kind == TomlNode::Kind::text ? entry->value.text : std::string();
}

// What is wrong with the part above [costs].
std::string problem_of_head(const TomlNode& root, const ProbedDevice& device) {
  const TomlEntry* format = root.find("format");
  if (format == nullptr || format->value.kind != TomlNode::Kind::integer)
    return "it is not a file of `spillway probe`; remove it" + std::string(kAnew);
  if (format->value.integer != kFormat) return "its format is of another version of Spillway" + std::string(kAnew);
  const std::string uuid = text_of(root, "uuid");
  if (uuid != device.uuid)
    return "it is of another device, " + quoted(uuid) + " and not \"" + device.uuid + "\"" + std::string(kAnew);
  const std::string driver = text_of(root, "driver");
  if (driver != device.driver)
    return "it was measured with driver " + quoted(driver) + ", and this is \"" + device.driver + "\"" +
           std::string(kAnew);
  return {};
}

}  // namespace

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : uuid) {
    text += kHex[byte >> 4U];
    text += kHex[byte & 0xFU];
  }
  return text;
}

std::string cost_file_name(std::string_view uuid) { return "costs-" + std::string(uuid) + ".toml"; }

std::string cost_folder(const char* xdg_cache_home, const char* home) {
  // A path that is not absolute is to be ignored, as the specification of these folders says.
  if (xdg_cache_home != nullptr && *xdg_cache_home == '/') return std::string(xdg_cache_home) + "/spillway";
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/spillway";
  return {};
}

std::string write_cost_file(const CostFile& file) {
  std::string text = "# What one device costs, as `spillway probe` measured it. Read when a program starts on it.\n";
  text += "# Remove the file to go back to the built-in costs.\n";
  text += "format = " + std::to_string(kFormat) + "\n";
  const std::pair<const char*, const std::string&> head[] = {{"uuid", file.device.uuid},
                                                             {"device", file.device.name},
                                                             {"driver", file.device.driver},
                                                             {"spillway", file.build},
                                                             {"measured", file.measured}};
  for (const auto& [key, value] : head) text += std::string(key) + " = " + toml_string(value) + "\n";
  text += "\n[costs]\n";
  for (const CostRow& row : cost_rows()) {
    text += "# " + std::string(row.sentence) + " In " + std::string(row.unit) + ".\n";
    text += std::string(row.key) + " = " + cost_text(file.costs.*row.field) + "\n";
  }
  return text;
}

std::string unread_cost_file(std::string_view reason) {
  return "it cannot be read (" + std::string(reason) +
         "): let this user read it, or name another folder by XDG_CACHE_HOME";
}

std::optional<CostTable> read_cost_file(std::string_view text, const ProbedDevice& device, std::string& why) {
  const TomlDocument document = read_toml(text);
  if (!document.faults.empty()) {
    const TomlFault& fault = document.faults.front();
    why = place(fault.at) + fault.description + std::string(kAnew);
    return std::nullopt;
  }
  why = problem_of_head(document.root, device);
  if (!why.empty()) return std::nullopt;
  const TomlEntry* entries = document.root.find("costs");
  if (entries == nullptr || entries->value.kind != TomlNode::Kind::table) {
    why = "it has no [costs]" + std::string(kAnew);
    return std::nullopt;
  }
  CostTable costs;
  for (const TomlEntry& entry : entries->value.entries) {
    why = read_cost(entry, costs);
    if (!why.empty()) return std::nullopt;
  }
  return costs;
}

}  // namespace spillway::policy
