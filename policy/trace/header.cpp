#include "policy/trace/header.hpp"

#include "policy/cost_file.hpp"
#include "policy/trace/json_writer.hpp"

namespace spillway::policy::trace {

std::string encode_header(const TraceHeader& header) {
  JsonWriter json;
  json.begin_object().field("program", header.program).key("arguments").begin_array();
  for (const std::string& argument : header.arguments) json.text(argument);
  json.end_array().field("pid", header.pid).field("parent_pid", header.parent_pid).field("start", header.start);
  json.field("host", header.host).field("rank", header.rank).key("devices").begin_array();
  for (const DeviceSeen& device : header.devices) {
    json.begin_object().field("device", device.device.value).field("uuid", uuid_text(device.uuid));
    json.field("name", device.name).field("total", device.total.count()).field("free", device.free.count());
    json.key("can_spill").boolean(device.can_spill).end_object();
  }
  json.end_array().field("driver_version", header.driver_version).field("build", header.build);
  json.key("settings").begin_object();
  for (const auto& [key, value] : header.settings) json.field(key, value);
  json.end_object().key("rules").begin_array();
  for (const RuleSeen& rule : header.rules) {
    json.begin_object().field("name", std::string_view(rule.name).substr(0, kMostRuleName));
    json.field("line", rule.line).end_object();
  }
  json.end_array().key("cost_table").raw(header.cost_table.empty() ? "{}" : header.cost_table).end_object();
  return json.str();
}

std::string encode_end(const TraceEnd& end) {
  JsonWriter json;
  json.begin_object().field("reason", end.reason).field("launches", end.launches).field("decisions", end.decisions);
  json.field("dropped_events", end.dropped_events).field("dropped_frames", end.dropped_frames);
  json.field("ignored_events", end.ignored_events).key("devices").begin_array();
  for (const DeviceEnd& device : end.devices) {
    json.begin_object().field("device", device.device.value);
    for (const TotalField& field : kTotalFields) json.field(field.name, (device.totals.*field.member).count());
    json.end_object();
  }
  json.end_array().end_object();
  return json.str();
}

}  // namespace spillway::policy::trace
