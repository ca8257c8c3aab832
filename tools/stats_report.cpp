#include "tools/stats_report.hpp"

#include <algorithm>
#include <cstdio>

#include "policy/demangle.hpp"
#include "policy/explain.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

std::string seconds(Nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", static_cast<double>(time.count()) / 1e9);
  return text;
}

std::string command_line(const TraceSummary& summary) {
  if (!summary.header_is_known) return "unknown";
  std::string text;
  for (const std::string& argument : summary.header.arguments) text += (text.empty() ? "" : " ") + harmless(argument);
  return text.empty() ? harmless(summary.header.program) : text;
}

std::string line(const char* title, const std::string& text) {
  char padded[32];
  std::snprintf(padded, sizeof padded, "%-13s ", title);
  return padded + text + "\n";
}

// The end has some of the whole run, however much of what comes before it is lost.
std::string figures_of(const TraceSummary& summary) {
  const bool recorded = std::any_of(summary.devices.begin(), summary.devices.end(),
                                    [](const DeviceSummary& device) { return device.totals_are_recorded; });
  return std::string("of what could be read") + (recorded ? ", but for what is said to be recorded at the end" : "");
}

std::string opening(const TraceSummary& summary) {
  const trace::TraceHeader& header = summary.header;
  std::string out = line("trace", harmless(summary.path) + ", " + summary.completeness);
  if (!summary.whole) out += line("figures", figures_of(summary));
  out += line("program", command_line(summary));
  std::string process = "unknown";
  if (summary.header_is_known) {
    process = "pid " + std::to_string(header.pid) + " on " + harmless(header.host);
    if (!header.rank.empty()) process += ", rank " + harmless(header.rank);
    process += ", started " + harmless(header.start);
  }
  out += line("process", process + ", " + (summary.whole ? "" : "last event read at ") + seconds(summary.duration) +
                             (summary.end_reason.empty() ? "" : ", ended by " + harmless(summary.end_reason)));
  out +=
      line("spillway", summary.header_is_known ? harmless(header.build) + ", driver " + harmless(header.driver_version)
                                               : "unknown");
  if (summary.simulated()) out += line("device", "simulated: bytes are what was decided there, times mean nothing");
  if (!summary.header_is_known) return out + line("settings", "unknown");
  std::string settings;
  for (const auto& [key, value] : header.settings) {
    const SettingRow* row = find_setting(key);
    if (row != nullptr && row->default_text == value) continue;
    settings += (settings.empty() ? "" : ", ") + harmless(key) + " = " + harmless(value);
  }
  return out + line("settings", settings.empty() ? "all at their defaults" : settings);
}

std::string budget_text(const TraceSummary& summary, const DeviceTotals& totals) {
  if (summary.off()) return "none (off)";
  return totals.budget == Bytes() ? "unknown" : format_bytes(totals.budget);
}

// Which no end records.
std::string on_host_peak_text(const TraceSummary& summary, const DeviceSummary& device) {
  return (device.totals_are_recorded && !summary.whole ? "at least " : "") + format_bytes(device.on_host_peak);
}

std::string device_tables(const TraceSummary& summary, std::size_t width) {
  if (summary.devices.empty()) return line("devices", "none seen: the program made no CUDA context");
  TextTable table({{"device", Align::left},
                   {"budget"},
                   {"managed peak"},
                   {"plain"},
                   {"managed"},
                   {"on host"},
                   {"on host peak"},
                   {"moved in"},
                   {"moved out"}});
  bool all_recorded = true;
  for (const DeviceSummary& device : summary.devices) {
    const DeviceTotals& totals = device.totals;
    all_recorded = all_recorded && device.totals_are_recorded;
    table.add({std::to_string(device.seen.device.value) + " " + harmless(device.seen.name),
               budget_text(summary, totals), format_bytes(totals.resident_peak), format_bytes(totals.plain),
               format_bytes(totals.managed), format_bytes(totals.on_host), on_host_peak_text(summary, device),
               format_bytes(totals.moved_in), format_bytes(totals.moved_out)});
  }
  return std::string("\nDevices, ") +
         (all_recorded ? "as recorded at the end" : "added up from the events, since the end is missing") + "\n" +
         table.str(width);
}

std::string allocation_table(const TraceSummary& summary, std::size_t width) {
  TextTable table({{"allocations", Align::left}, {"count"}, {"bytes"}});
  const auto add = [&table](const std::string& name, const CountAndBytes& of) {
    if (of.count > 0) table.add({name, grouped(of.count), format_bytes(of.bytes)});
  };
  for (std::size_t i = 0; i < summary.allocations_by_kind.size(); ++i) {
    add(std::string("asked: ") + name_of(static_cast<AllocationKind>(i)), summary.allocations_by_kind[i]);
  }
  add("backed by device memory", summary.allocations_by_backing[0]);
  add("backed by managed memory", summary.allocations_by_backing[1]);
  add("refused", summary.refused);
  if (summary.failed_allocations > 0) table.add({"failed in the driver", grouped(summary.failed_allocations), ""});
  if (summary.frees > 0) table.add({"freed", grouped(summary.frees), ""});
  add("live at the peak", summary.live_at_peak);
  add("live at the end", summary.live_at_end);
  return table.empty() ? std::string() : "\n" + table.str(width);
}

std::string traffic_table(const TraceSummary& summary, std::size_t width) {
  static constexpr std::array kTo = {"", "moved to the device", "moved to the host", "duplicated"};
  static constexpr std::array kCopies = {"program's copies, host to device", "program's copies, device to host",
                                         "program's copies, device to device", "program's copies, unknown direction"};
  static constexpr std::array kTraffic = {"pages in, as the driver counted", "pages out, as the driver counted",
                                          "GPU page faults", "CPU page faults", "probes used"};
  TextTable table({{"traffic", Align::left}, {"count"}, {"bytes"}});
  const auto add = [&table](const char* name, const CountAndBytes& of) {
    if (of.count > 0) table.add({name, grouped(of.count), of.bytes == Bytes() ? "" : format_bytes(of.bytes)});
  };
  const auto part = [&table](const char* name, Bytes bytes) {
    if (bytes != Bytes()) table.add({name, "", format_bytes(bytes)});
  };
  add(kTo[1], summary.moves_done[1]);
  part("  in again after it had left", summary.refetched);
  part("  in for nothing: left untouched", summary.useless);
  for (std::size_t i = 2; i < kTo.size(); ++i) add(kTo[i], summary.moves_done[i]);
  for (std::size_t i = 0; i < kCopies.size(); ++i) add(kCopies[i], summary.copies[i]);
  add("program's fills", summary.fills);
  for (std::size_t i = 0; i < kTraffic.size(); ++i) {
    add(kTraffic[i], summary.page_traffic[i]);
    const bool faults = i == static_cast<std::size_t>(policy::PageTraffic::gpu_fault) && summary.moving_faults > 0;
    if (faults) table.add({"  on memory that was being moved", grouped(summary.moving_faults), ""});
  }
  std::string out = table.empty() ? std::string() : "\n" + table.str(width);
  if (summary.moves_failed + summary.moves_cancelled + summary.moves_open > 0) {
    out += "  moves failed " + grouped(summary.moves_failed) + ", cancelled " + grouped(summary.moves_cancelled) +
           ", open at the end " + grouped(summary.moves_open) + "\n";
  }
  const auto counted_by_driver = [](const CountAndBytes& of) { return of.count > 0; };
  if (std::any_of(summary.page_traffic.begin(), summary.page_traffic.end(), counted_by_driver)) {
    out +=
        "  the driver's counts are of the time that CUPTI was on, and include the program's own managed memory; what "
        "moved at other times is in none of them\n";
  }
  if (summary.page_traffic[static_cast<std::size_t>(PageTraffic::remote_map)].count > 0) {
    out +=
        "  probes used: kernels faulted on memory that was unmapped to see whether it is used; it stayed where it "
        "was, and a fault maps 4 KiB\n";
  }
  return out;
}

// "the window has room for it": the column says that it is why. A note and what is cancelled say it themselves.
std::string in_words(std::size_t decision, Reason reason) {
  static_assert(std::variant_size_v<DecisionBody> == 7);
  constexpr std::size_t kCancelMoves = 4;
  if (decision >= kCancelMoves) return {};
  std::string text = reason_text(reason);
  constexpr std::string_view kBecause = "because ";
  if (text.starts_with(kBecause)) text.erase(0, kBecause.size());
  return text;
}

std::string decision_table(const TraceSummary& summary, std::size_t width) {
  TextTable table({{"decision", Align::left}, {"reason", Align::left}, {"count"}, {"bytes"}, {"why", Align::left}});
  for (const auto& [key, of] : summary.decisions) {
    table.add({name_of_decision(key.first), name_of(key.second), grouped(of.count),
               of.bytes == Bytes() ? "" : format_bytes(of.bytes), in_words(key.first, key.second)});
  }
  return table.empty() ? "\nDecisions: none\n" : "\n" + table.str(width);
}

std::string mean_microseconds(const FunctionSummary& of) {
  if (of.timed == 0) return "";
  const std::int64_t tenths = of.kernel_time.count() / static_cast<std::int64_t>(of.timed) / 100;
  return grouped(static_cast<std::uint64_t>(tenths / 10)) + "." + std::to_string(tenths % 10);
}

std::string dropped_text(const TraceSummary& summary) {
  const bool none = summary.dropped_events + summary.dropped_frames == 0;
  if (none) return summary.loss_is_counted ? "nothing" : "not known: records are missing that were not counted";
  std::string text = counted(summary.dropped_events, "event", "events") + ", " +
                     counted(summary.dropped_frames, "frame", "frames") + ": this trace is no exact replay";
  if (summary.reached_max_size) {
    text += "; it reached trace.max_size: raise that, or leave it out";
  } else if (summary.dropped_frames > 0) {
    text += "; its disk was full or too slow";
  }
  return (summary.loss_is_counted ? "" : "at least ") + text;
}

std::string count_of_lost(std::uint64_t lost, bool all) {
  if (all) return grouped(lost);
  return lost == 0 ? "unknown" : "at least " + grouped(lost);
}

std::string launch_table(const TraceSummary& summary, std::size_t most_functions, std::size_t width) {
  std::string out =
      "\n" + line("launches",
                  grouped(summary.launches) + " of " + grouped(summary.shapes) + " shapes" +
                      (summary.graph_launches > 0 ? ", graphs among them: " + grouped(summary.graph_launches) : ""));
  out += line("dropped", dropped_text(summary));
  if (summary.unknown_records > 0) {
    out += line("unknown", counted(summary.unknown_records, "record", "records") + " of a newer spillway left out");
  }
  if (summary.timed_launches > 0) out += line("timed", counted(summary.timed_launches, "launch", "launches"));
  if (summary.lost_windows > 0) {
    out +=
        line("not told apart", "the kernels of " + counted(summary.lost_windows, "sampled window", "sampled windows"));
  }
  const bool timed = summary.timed_launches > 0;
  TextTable table(timed ? std::vector<TextTable::Column>{{"launches"}, {"mean us"}, {"function", Align::left}}
                        : std::vector<TextTable::Column>{{"launches"}, {"function", Align::left}});
  for (std::size_t i = 0; i < std::min(most_functions, summary.functions.size()); ++i) {
    const FunctionSummary& of = summary.functions[i];
    const std::string name = harmless(demangled(of.name));
    if (timed) {
      table.add({grouped(of.launches), mean_microseconds(of), name});
    } else {
      table.add({grouped(of.launches), name});
    }
  }
  if (table.empty()) return out;
  out += "\n" + table.str(width);
  if (summary.functions.size() > most_functions) {
    out +=
        "  and " + counted(summary.functions.size() - most_functions, "more function", "more functions") + " (--top)\n";
  }
  return out;
}

}  // namespace

std::string stats_opening(const TraceSummary& summary) { return opening(summary); }

std::string stats_page(const TraceSummary& summary, std::size_t most_functions, std::size_t width) {
  return opening(summary) + device_tables(summary, width) + allocation_table(summary, width) +
         traffic_table(summary, width) + decision_table(summary, width) + launch_table(summary, most_functions, width);
}

std::string stats_list(const std::vector<TraceSummary>& summaries, WithTotals totals, std::size_t width) {
  TextTable table({{"rank"},
                   {"pid"},
                   {"time"},
                   {"launches"},
                   {"allocations"},
                   {"managed peak"},
                   {"moved in"},
                   {"moved out"},
                   {"decisions"},
                   {"dropped"},
                   {"trace", Align::left},
                   {"", Align::left}});
  std::uint64_t launches = 0, allocations = 0, decisions = 0, dropped = 0;
  Bytes peak, in, out;
  Nanoseconds longest;
  bool all_counted = true;
  for (const TraceSummary& one : summaries) {
    const std::uint64_t lost = one.dropped_events + one.dropped_frames;
    table.add({one.header.rank.empty() ? "-" : harmless(one.header.rank),
               one.header_is_known ? std::to_string(one.header.pid) : "unknown", seconds(one.duration),
               grouped(one.launches), grouped(one.allocations), format_bytes(one.resident_peak()),
               format_bytes(one.moved_in()), format_bytes(one.moved_out()), grouped(one.decision_count),
               count_of_lost(lost, one.loss_is_counted), harmless(one.path), one.completeness});
    launches += one.launches;
    allocations += one.allocations;
    decisions += one.decision_count;
    dropped += lost;
    all_counted = all_counted && one.loss_is_counted;
    peak += one.resident_peak();
    in += one.moved_in();
    out += one.moved_out();
    longest = std::max(longest, one.duration);
  }
  if (totals == WithTotals::yes)
    table.add({"all", std::to_string(summaries.size()), seconds(longest), grouped(launches), grouped(allocations),
               format_bytes(peak), format_bytes(in), format_bytes(out), grouped(decisions),
               count_of_lost(dropped, all_counted), "", ""});
  return table.str(width);
}

}  // namespace spillway::tools
