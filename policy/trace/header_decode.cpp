// The reading half of header.hpp: the only file of policy that needs a JSON library. The shim does not link it.
#include <nlohmann/json.hpp>

#include "policy/trace/header.hpp"

namespace spillway::policy::trace {
namespace {

using Json = nlohmann::json;

// What is deeper is no header of ours, and walking it takes more stack than there is.
constexpr std::size_t kDeepest = 64;

bool too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (in_text && letter == '\\') {
      ++at;
    } else if (letter == '"') {
      in_text = !in_text;
    } else if (!in_text && (letter == '[' || letter == '{')) {
      if (++depth > kDeepest) return true;
    } else if (!in_text && (letter == ']' || letter == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

std::optional<Json> parse_object(std::string_view text) {
  if (too_deep(text)) return std::nullopt;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

const Json& member(const Json& object, const char* name) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(name);
  return found == object.end() ? nothing : *found;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }
std::uint64_t number_of(const Json& value) {
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : std::uint64_t{0};
}

std::uint8_t hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<std::uint8_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<std::uint8_t>(digit - 'a' + 10);
  return 0;
}

DeviceSeen device_of(const Json& value) {
  DeviceSeen device;
  device.device.value = static_cast<std::uint32_t>(number_of(member(value, "device")));
  const std::string uuid = text_of(member(value, "uuid"));
  for (std::size_t i = 0; i < device.uuid.size() && 2 * i + 1 < uuid.size(); ++i) {
    device.uuid[i] = static_cast<std::uint8_t>(hex_digit(uuid[2 * i]) * 16 + hex_digit(uuid[2 * i + 1]));
  }
  device.name = text_of(member(value, "name"));
  device.total = Bytes(number_of(member(value, "total")));
  device.free = Bytes(number_of(member(value, "free")));
  device.can_spill = member(value, "can_spill") == true;
  return device;
}

}  // namespace

std::optional<TraceHeader> decode_header(std::string_view text) {
  const std::optional<Json> json = parse_object(text);
  if (!json) return std::nullopt;
  TraceHeader header;
  header.program = text_of(member(*json, "program"));
  if (const Json& arguments = member(*json, "arguments"); arguments.is_array()) {
    for (const Json& argument : arguments) header.arguments.push_back(text_of(argument));
  }
  header.pid = number_of(member(*json, "pid"));
  header.parent_pid = number_of(member(*json, "parent_pid"));
  header.start = text_of(member(*json, "start"));
  header.host = text_of(member(*json, "host"));
  header.rank = text_of(member(*json, "rank"));
  if (const Json& devices = member(*json, "devices"); devices.is_array()) {
    for (const Json& device : devices) header.devices.push_back(device_of(device));
  }
  header.driver_version = text_of(member(*json, "driver_version"));
  header.build = text_of(member(*json, "build"));
  if (const Json& settings = member(*json, "settings"); settings.is_object()) {
    for (const auto& [key, value] : settings.items()) header.settings.emplace_back(key, text_of(value));
  }
  if (const Json& rules = member(*json, "rules"); rules.is_array()) {
    for (const Json& rule : rules)
      header.rules.push_back(
          {text_of(member(rule, "name")), static_cast<std::uint32_t>(number_of(member(rule, "line")))});
  }
  if (const Json& costs = member(*json, "cost_table"); costs.is_object()) header.cost_table = costs.dump();
  return header;
}

std::optional<TraceEnd> decode_end(std::string_view text) {
  const std::optional<Json> json = parse_object(text);
  if (!json) return std::nullopt;
  TraceEnd end;
  end.reason = text_of(member(*json, "reason"));
  end.launches = number_of(member(*json, "launches"));
  end.decisions = number_of(member(*json, "decisions"));
  end.dropped_events = number_of(member(*json, "dropped_events"));
  end.dropped_frames = number_of(member(*json, "dropped_frames"));
  end.ignored_events = number_of(member(*json, "ignored_events"));
  if (const Json& devices = member(*json, "devices"); devices.is_array()) {
    for (const Json& value : devices) {
      DeviceEnd device;
      device.device.value = static_cast<std::uint32_t>(number_of(member(value, "device")));
      for (const TotalField& field : kTotalFields) {
        device.totals.*field.member = Bytes(number_of(member(value, std::string(field.name).c_str())));
      }
      end.devices.push_back(device);
    }
  }
  return end;
}

}  // namespace spillway::policy::trace
