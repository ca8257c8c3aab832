// The JSON form of stats: bytes and nanoseconds as numbers, names as in the settings and the trace's own fields.
#include <algorithm>

#include "policy/demangle.hpp"
#include "tools/stats_report.hpp"

namespace spillway::tools {

using namespace policy;
using Json = nlohmann::ordered_json;

namespace {

Json pair_of(const CountAndBytes& of) { return {{"count", of.count}, {"bytes", of.bytes.count()}}; }

Json devices_of(const TraceSummary& summary) {
  Json list = Json::array();
  for (const DeviceSummary& device : summary.devices) {
    Json one = {{"device", device.seen.device.value},
                {"name", device.seen.name},
                {"total", device.seen.total.count()},
                {"can_spill", device.seen.can_spill},
                {"totals_are_recorded", device.totals_are_recorded}};
    for (const trace::TotalField& field : trace::kTotalFields) {
      one[std::string(field.name)] = (device.totals.*field.member).count();
    }
    one["on_host_peak"] = device.on_host_peak.count();
    one["on_host_peak_is_at_least"] = !summary.whole;  // from the events, also where the rest is recorded
    list.push_back(std::move(one));
  }
  return list;
}

Json allocations_of(const TraceSummary& summary) {
  Json by_kind = Json::object();
  for (std::size_t i = 0; i < summary.allocations_by_kind.size(); ++i) {
    by_kind[name_of(static_cast<AllocationKind>(i))] = pair_of(summary.allocations_by_kind[i]);
  }
  return {{"settled", summary.allocations},
          {"by_kind", std::move(by_kind)},
          {"device", pair_of(summary.allocations_by_backing[0])},
          {"managed", pair_of(summary.allocations_by_backing[1])},
          {"refused", pair_of(summary.refused)},
          {"failed", summary.failed_allocations},
          {"freed", summary.frees},
          {"live_at_end", pair_of(summary.live_at_end)},
          {"live_at_peak", pair_of(summary.live_at_peak)}};
}

Json traffic_of(const TraceSummary& summary) {
  return {{"moved_to_device", pair_of(summary.moves_done[1])},
          {"moved_to_host", pair_of(summary.moves_done[2])},
          {"duplicated", pair_of(summary.moves_done[3])},
          {"moved_in", summary.moved_in().count()},
          {"moved_out", summary.moved_out().count()},
          {"refetched", summary.refetched.count()},
          {"useless", summary.useless.count()},
          {"moves_failed", summary.moves_failed},
          {"moves_cancelled", summary.moves_cancelled},
          {"moves_open", summary.moves_open},
          {"copies_host_to_device", pair_of(summary.copies[0])},
          {"copies_device_to_host", pair_of(summary.copies[1])},
          {"copies_device_to_device", pair_of(summary.copies[2])},
          {"copies_unknown", pair_of(summary.copies[3])},
          {"fills", pair_of(summary.fills)},
          {"pages_in", pair_of(summary.page_traffic[0])},
          {"pages_out", pair_of(summary.page_traffic[1])},
          {"gpu_faults", summary.page_traffic[2].count},
          {"cpu_faults", summary.page_traffic[3].count}};
}

Json telemetry_of(const TraceSummary& summary) {
  return {{"state", summary.telemetry},
          {"timed_launches", summary.timed_launches},
          {"lost_windows", summary.lost_windows},
          {"spilled_pages_in", pair_of(summary.spilled_page_traffic[0])},
          {"spilled_pages_out", pair_of(summary.spilled_page_traffic[1])},
          {"spilled_gpu_faults", summary.spilled_page_traffic[2].count},
          {"spilled_gpu_faults_in_moves", summary.moving_faults},
          {"probes_used", summary.spilled_page_traffic[4].count}};
}

}  // namespace

Json stats_json(const TraceSummary& summary, std::size_t most_functions) {
  const trace::TraceHeader& header = summary.header;
  Json settings = Json::object();
  for (const auto& [key, value] : header.settings) settings[key] = value;
  Json decisions = Json::array();
  for (const auto& [key, of] : summary.decisions) {
    decisions.push_back({{"decision", name_of_decision(key.first)},
                         {"reason", name_of(key.second)},
                         {"count", of.count},
                         {"bytes", of.bytes.count()}});
  }
  Json functions = Json::array();
  for (std::size_t i = 0; i < std::min(most_functions, summary.functions.size()); ++i) {
    functions.push_back({{"name", summary.functions[i].name},
                         {"demangled", demangled(summary.functions[i].name)},
                         {"launches", summary.functions[i].launches},
                         {"timed", summary.functions[i].timed},
                         {"kernel_time_ns", summary.functions[i].kernel_time.count()}});
  }
  return {{"trace", summary.path},
          {"whole", summary.whole},
          {"completeness", summary.completeness},
          {"file_bytes", summary.file_bytes},
          {"records", summary.records},
          {"unknown_records", summary.unknown_records},
          {"header_is_known", summary.header_is_known},
          {"program", header.program},
          {"arguments", header.arguments},
          {"pid", header.pid},
          {"host", header.host},
          {"rank", header.rank},
          {"start", header.start},
          {"duration_ns", summary.duration.count()},
          {"duration_is_at_least", !summary.whole},
          {"end", summary.end_reason},
          {"build", header.build},
          {"driver_version", header.driver_version},
          {"settings", std::move(settings)},
          {"devices", devices_of(summary)},
          {"allocations", allocations_of(summary)},
          {"traffic", traffic_of(summary)},
          {"telemetry", telemetry_of(summary)},
          {"launches", summary.launches},
          {"graph_launches", summary.graph_launches},
          {"shapes", summary.shapes},
          {"function_count", summary.functions.size()},
          {"functions", std::move(functions)},
          {"decision_count", summary.decision_count},
          {"decisions", std::move(decisions)},
          {"dropped_events", summary.dropped_events},
          {"dropped_frames", summary.dropped_frames},
          {"dropped_is_at_least", !summary.loss_is_counted},
          {"reached_max_size", summary.reached_max_size},
          {"ignored_events", summary.ignored_events}};
}

}  // namespace spillway::tools
