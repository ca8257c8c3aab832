#include "tools/top_frame.hpp"

#include <algorithm>
#include <cstdio>

#include "policy/settings.hpp"
#include "tools/names.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

std::string rate_text(double bytes_a_second) {
  return format_bytes(Bytes(static_cast<std::uint64_t>(bytes_a_second))) + "/s";
}

// "[#######...]" of `width` marks.
std::string bar(Bytes part, Bytes whole, std::size_t width) {
  if (whole == Bytes()) return {};
  const double share = std::min(1.0, static_cast<double>(part.count()) / static_cast<double>(whole.count()));
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

std::string seconds_text(Nanoseconds time, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f s", digits, static_cast<double>(time.count()) / 1e9);
  return text;
}

std::string heading(const TopFrame& frame) {
  std::string out = "unknown program";
  if (frame.header_known) {
    out = harmless(frame.program.substr(frame.program.rfind('/') + 1)) + ", pid " + std::to_string(frame.pid) +
          (frame.asked_for == 0 ? "" : ", a child of " + std::to_string(frame.asked_for) + ",") + " on " +
          harmless(frame.host);
  }
  if (!frame.rank.empty()) out += ", rank " + harmless(frame.rank);
  out += ", " + harmless(frame.state) + ", " + (frame.is_partial() ? "last event read at " : "") +
         seconds_text(frame.time, 1);
  // What happens is known within a second.
  if (!frame.last_event.empty()) {
    out += (frame.is_partial() ? ", at " : ", last event at ") + frame.last_event;
  } else if (frame.quiet_seconds >= 2) {
    out += ", last event " + std::to_string(frame.quiet_seconds) + " s ago";
  }
  if (frame.is_partial()) out += "\nincomplete: " + frame.completeness;
  return out + "\n";
}

std::string progress(const TopFrame& frame) {
  char rate[32];
  std::snprintf(rate, sizeof rate, "%.0f", frame.launches_per_second);
  std::string out = "launch " + grouped(frame.launches) + ", " + rate +
                    (!frame.ended         ? " a second; "
                     : frame.is_partial() ? " a second over what could be read; "
                                          : " a second over the whole run; ");
  if (frame.iteration == 0) return out + frame.no_iteration + "\n";
  // Of a trace they are found anew, and counted as stats does.
  out += "iteration " + grouped(frame.iteration) + (frame.trace.empty() ? ", as the policy counts," : ",") +
         " at its launch " + grouped(frame.iteration_launches);
  return out +
         (frame.iteration_took == Nanoseconds() ? "" : "; the last took " + seconds_text(frame.iteration_took, 4)) +
         "\n";
}

std::string device_table(const TopFrame& frame, std::size_t width) {
  TextTable table(
      {{"device", Align::left}, {"budget"}, {"plain"}, {"resident"}, {"", Align::left}, {"on host"}, {"in"}, {"out"}});
  for (const TopDevice& of : frame.devices) {
    table.add({std::to_string(of.device) + " " + harmless(of.name),
               of.budget == Bytes() ? frame.no_budget : format_bytes(of.budget), format_bytes(of.plain),
               format_bytes(of.resident), bar(of.plain + of.resident, of.budget, 20), format_bytes(of.on_host),
               rate_text(of.in_per_second), rate_text(of.out_per_second)});
  }
  return table.empty() ? std::string() : "\n" + table.str(width);
}

// A run that has ended freed all, most often: what it held at most says more.
std::string peaks(const TopFrame& frame) {
  std::string out;
  if (!frame.ended) return out;
  for (const TopDevice& of : frame.devices) {
    out += "  peaks of device " + std::to_string(of.device) + ":";
    // Those two are in no trace's end.
    const std::string least = frame.is_partial() ? "at least " : "";
    if (of.plain_peak) out += " plain " + least + format_bytes(*of.plain_peak) + ",";
    out += " resident " + format_bytes(of.resident_peak);
    if (of.on_host_peak) out += ", on host " + least + format_bytes(*of.on_host_peak);
    out += "\n";
  }
  return out;
}

std::string allocation_table(const TopFrame& frame, std::size_t width) {
  TextTable table({{"allocation"},
                   {"size"},
                   {"class", Align::left},
                   {"in HBM"},
                   {"on host"},
                   {"crossed"},
                   {"asked for by", Align::left}});
  for (const TopAllocation& of : frame.allocations) {
    table.add({std::to_string(of.allocation), format_bytes(of.bytes), span_class_name(of.span_class),
               format_bytes(of.in_hbm), format_bytes(of.on_host), format_bytes(of.crossed), harmless(of.caller)});
  }
  return table.empty() ? std::string() : "\n" + table.str(width);
}

}  // namespace

void take_rates_of_whole_run(TopFrame& frame) {
  const double seconds = static_cast<double>(frame.time.count()) / 1e9;
  const auto rate = [seconds](std::uint64_t count) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; };
  frame.launches_per_second = rate(frame.launches);
  for (TopDevice& of : frame.devices) {
    of.in_per_second = rate(of.moved_in.count());
    of.out_per_second = rate(of.moved_out.count());
  }
}

std::string text_of(const TopFrame& frame, const Terminal& terminal) {
  return page_for(terminal, heading(frame) + progress(frame) + device_table(frame, terminal.width) + peaks(frame) +
                                allocation_table(frame, terminal.width));
}

nlohmann::ordered_json json_of(const TopFrame& frame) {
  using Json = nlohmann::ordered_json;
  const auto maybe = [](const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->count()) : Json(nullptr); };
  Json devices = Json::array();
  for (const TopDevice& of : frame.devices) {
    devices.push_back({{"device", of.device},
                       {"name", of.name},
                       {"budget", of.budget.count()},
                       {"plain", of.plain.count()},
                       {"reserved", of.reserved.count()},
                       {"managed", of.managed.count()},
                       {"resident", of.resident.count()},
                       {"on_host", of.on_host.count()},
                       {"plain_peak", maybe(of.plain_peak)},
                       {"resident_peak", of.resident_peak.count()},
                       {"on_host_peak", maybe(of.on_host_peak)},
                       {"moved_in", of.moved_in.count()},
                       {"moved_out", of.moved_out.count()},
                       {"in_per_second", of.in_per_second},
                       {"out_per_second", of.out_per_second}});
  }
  Json allocations = Json::array();
  for (const TopAllocation& of : frame.allocations) {
    allocations.push_back({{"allocation", of.allocation},
                           {"bytes", of.bytes.count()},
                           {"class", span_class_name(of.span_class)},
                           {"in_hbm", of.in_hbm.count()},
                           {"on_host", of.on_host.count()},
                           {"crossed", of.crossed.count()},
                           {"caller", of.caller}});
  }
  return {{"source", frame.trace.empty() ? "process" : "trace"},
          {"trace", frame.trace},
          {"program", frame.program},
          {"pid", frame.pid},
          {"asked_for", frame.asked_for == 0 ? frame.pid : frame.asked_for},
          {"host", frame.host},
          {"rank", frame.rank},
          {"state", frame.state},
          {"completeness", frame.completeness},
          {"quiet_seconds", frame.quiet_seconds},
          {"last_event", frame.last_event},
          {"time_ns", frame.time.count()},
          {"launches", frame.launches},
          {"launches_per_second", frame.launches_per_second},
          {"iteration", frame.iteration},
          {"iteration_launches", frame.iteration_launches},
          {"iteration_ns", frame.iteration_took.count()},
          {"devices", std::move(devices)},
          {"allocations", std::move(allocations)}};
}

}  // namespace spillway::tools
