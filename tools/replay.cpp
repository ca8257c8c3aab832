#include "tools/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "policy/cost_table.hpp"
#include "policy/size_text.hpp"
#include "tools/least_budget.hpp"
#include "tools/names.hpp"
#include "tools/program_report.hpp"
#include "tools/regular_file.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;
using Json = nlohmann::ordered_json;

namespace {

std::string fixed(double value, const char* format) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string size(double bytes) { return format_bytes(Bytes(static_cast<std::uint64_t>(bytes + 0.5))); }
std::string size(Bytes bytes) { return format_bytes(bytes); }

// Mode off is no policy at all where its memory does not fit, nor is one that refuses memory.
bool runs_to_its_end(const ReplayResult& result) { return result.fits() && result.out_of_memory == 0; }

// Mode off manages nothing, so there is no window to fill.
bool has_bound(const NamedReplay& replay) { return replay.policy.settings.mode != ModeName::off; }

// The window is what was left of the budget in the measured part; before that there may have been more.
std::string peaks_text(const std::vector<NamedReplay>& replays) {
  std::string names;
  for (const NamedReplay& each : replays) {
    if (has_bound(each) && each.result.resident_peak > each.result.window)
      names += (names.empty() ? "" : ", ") + harmless(each.name);
  }
  if (names.empty()) return {};
  return "peak: of the whole run; for " + names +
         " it is above the window of the bound, which is of the measured launches, less Spillway's own memory\n";
}

std::string policy_name(const NamedReplay& replay) {
  const char* const mark = !replay.result.fits()             ? " (does not fit)"
                           : replay.result.out_of_memory > 0 ? " (out of memory)"
                                                             : "";
  return harmless(replay.name) + mark;
}

// Why a row is marked, and what of a budget could not be had; a line each.
std::string remarks(const std::vector<NamedReplay>& replays) {
  std::string text;
  for (const NamedReplay& each : replays) {
    const ReplayResult& result = each.result;
    if (!result.fits()) {
      text += harmless(each.name) + ": does not fit: it needs " + format_bytes(result.plain_peak) + " of a budget of " +
              format_bytes(result.budget) + ", so the program would run out of memory\n";
    } else if (result.out_of_memory > 0) {
      text += harmless(each.name) + ": " + grouped(result.out_of_memory) + " allocation" +
              (result.out_of_memory == 1 ? " is" : "s are") +
              " refused, so the program would end: out of memory; take " +
              (each.least_budget == Bytes() ? "a larger budget" : budget_text(each.least_budget) + " at least") + "\n";
    }
  }
  for (const NamedReplay& each : replays) {
    const std::string line = budget_remark(each.result);
    if (!line.empty() && text.find(line) == std::string::npos) text += line + "\n";
  }
  return text;
}

// A line for each window: what managed memory may fill differs with the budget, and with what stays plain under it.
std::string bounds_text(const std::vector<NamedReplay>& replays) {
  std::vector<std::pair<std::string, std::string>> names_and_bounds;
  for (const NamedReplay& each : replays) {
    if (!has_bound(each)) continue;
    const ReplayResult& result = each.result;
    const std::string bound =
        "with " + size(result.window) + " of HBM for what can spill no policy can take less than " +
        fixed(result.bounds.seconds, "%.4f") + " s (compute " + fixed(result.bounds.compute_seconds, "%.4f") +
        " s) or move less than " + size(result.bounds.traffic) + "\n";
    const auto same = std::find_if(names_and_bounds.begin(), names_and_bounds.end(),
                                   [&bound](const auto& known) { return known.second == bound; });
    if (same == names_and_bounds.end()) {
      names_and_bounds.emplace_back(harmless(each.name), bound);
    } else {
      same->first += ", " + harmless(each.name);
    }
  }
  std::string text;
  for (const auto& [names, bound] : names_and_bounds) text += "least for " + names + ": " + bound;
  return text;
}

// The least time has kernels and the link only. What else a run takes would read as a bad placement.
std::string idle_text(const std::vector<NamedReplay>& replays) {
  constexpr double kWorthALine = 0.1;  // of the time
  const NamedReplay* leanest = nullptr;
  const auto idle = [](const NamedReplay& each) {
    return each.result.measured.seconds - each.result.measured.model.busy_seconds;
  };
  for (const NamedReplay& each : replays) {
    if (runs_to_its_end(each.result) && (leanest == nullptr || idle(each) < idle(*leanest))) leanest = &each;
  }
  if (leanest == nullptr || idle(*leanest) < kWorthALine * leanest->result.measured.seconds) return {};
  const bool moves = leanest->result.measured.model.crossed() > 0;
  return "of least time: the least has the kernels and the link alone; beside them, under " + harmless(leanest->name) +
         " no kernel runs for " + fixed(idle(*leanest), "%.4f") + " s of " +
         fixed(leanest->result.measured.seconds, "%.4f") + " s, in calls and pauses of the program" +
         (moves ? " and in waits for what moves\n" : ", which no placement changes\n");
}

// Whether a policy is the recorded run's own, with its budget.
bool is_as_recorded(const TraceEvents& trace, const NamedReplay& replay) {
  return replay.policy.rules.empty() && replay.policy.settings == trace.settings;
}

// A replay decides anew: by the model's times, and without what telemetry told the recorded run.
std::string as_recorded_text(const TraceEvents& trace, const std::vector<NamedReplay>& replays) {
  constexpr double kLike = 0.1;  // of what the larger one moved
  for (const NamedReplay& each : replays) {
    if (!is_as_recorded(trace, each)) continue;
    const ModelTotals& now = each.result.all.model;
    const auto in = static_cast<double>(trace.moved_in.count()), out = static_cast<double>(trace.moved_out.count());
    const double apart = std::abs(in - now.moved_in) + std::abs(out - now.moved_out);
    if (apart <= kLike * std::max(in + out, now.moved_in + now.moved_out)) return {};
    return "the recorded run moved " + size(in) + " in and " + size(out) +
           " out in all, and its replay under the same " + "policy and budget " + size(now.moved_in) + " and " +
           size(now.moved_out) + ": a replay decides anew, by the model's times and without what telemetry told" +
           (trace.ruled ? ", and knows none of the rules of the recorded run" : "") +
           "; compare its rows with each other, not with the recorded run\n";
  }
  return {};
}

std::string times(double value, double bound) { return bound > 0 ? fixed(value / bound, "%.2fx") : "-"; }

Json figures_json(const ReplayFigures& figures) {
  return {{"seconds", figures.seconds},
          {"launches", figures.launches},
          {"busy_seconds", figures.model.busy_seconds},
          {"compute_seconds", figures.model.compute_seconds},
          {"stall_seconds", figures.model.stall_seconds},
          {"crossed_bytes", figures.model.crossed()},
          {"moved_in_bytes", figures.model.moved_in},
          {"moved_out_bytes", figures.model.moved_out},
          {"read_in_place_bytes", figures.model.remote_read},
          {"written_in_place_bytes", figures.model.remote_write},
          {"faulted_bytes", figures.model.faulted},
          {"refetched_bytes", figures.refetched.count()},
          {"useless_prefetch_bytes", figures.useless.count()}};
}

}  // namespace

std::optional<std::string> load_policy(const std::string& text, NamedPolicy& policy, const Settings& recorded) {
  policy.name = text;
  Settings with_mode = recorded;
  if (!set_setting(with_mode, "policy.mode", text, "--compare")) {
    policy.file.settings = with_mode;
    return std::nullopt;
  }
  std::string why;
  const std::optional<std::string> content = read_regular(text, kLongestPolicyFile + 1, why);
  if (!content) {
    return "'" + text + "' is neither a policy file that can be read (" + why +
           ") nor a mode; name a file, or one of off, demand, alloc_prefetch, arrival, adaptive";
  }
  const PolicyFileReading reading = read_policy_file(*content, text);
  if (!reading.ok()) {
    return reading.mistakes.front().sentence() +
           (reading.mistakes.size() > 1 ? " (and more: spillway check " + text + ")" : "");
  }
  policy.file = reading.file;
  return std::nullopt;
}

std::vector<NamedReplay> replay_all(const TraceEvents& trace, const std::vector<NamedPolicy>& policies,
                                    const ReplayRequest& request) {
  const CostTable& costs = trace.costs.costs;
  const ShapeCosts shapes = infer_shape_costs(trace.events, costs);
  std::vector<NamedReplay> all;
  for (const NamedPolicy& policy : policies) {
    NamedReplay replayed{policy.name, policy.file, {}, {}};
    if (request.budget) replayed.policy.settings.device_budget = request.budget;
    ReplayOptions options;
    options.measure_after = {request.from_launch.value_or(trace.launches / 2)};
    options.keep = request.keep;
    options.bounds = request.bounds;
    replayed.result = replay(trace.events, replayed.policy, shapes, costs, options);
    if (request.least_budget == ReplayRequest::LeastBudget::wanted && replayed.result.out_of_memory > 0)
      replayed.least_budget = find_least_budget(trace, replayed.policy, replayed.result.budget, shapes);
    all.push_back(std::move(replayed));
  }
  return all;
}

std::optional<std::string> try_replay(const std::string& path, const TraceEvents& trace,
                                      const std::vector<NamedPolicy>& policies, const ReplayRequest& request,
                                      std::vector<NamedReplay>& replays) {
  try {
    replays = replay_all(trace, policies, request);
  } catch (const std::bad_alloc&) {
    return path + ": there is not enough memory to replay this trace; replay a shorter one";
  } catch (const std::exception& error) {
    return path + ": cannot be replayed: " + error.what();
  }
  return std::nullopt;
}

std::string no_launch(const std::string& path, const TraceEvents& trace) {
  const std::string missing = trace.state == "whole" ? "" : " (" + trace.state + ")";
  const std::string none = path + ": no launch in this trace" + missing;
  ProgramUse use;
  add_trace(use, path);
  const bool off = trace.settings.mode == ModeName::off;
  for (const auto& [index, device] : use.devices) {
    if (!device.ran_out()) continue;
    return none + ": the program was refused " + refused_text(*device.refused) + " before its first launch; " +
           (off && device.rescued() ? "record it without --mode off, where that spills"
                                    : "`spillway doctor -- program` says what it needs");
  }
  return none + "; record one with spillway run --trace";
}

double iterations(const ReplayResult& result) {
  return result.iteration == 0 ? 0
                               : static_cast<double>(result.measured.launches) / static_cast<double>(result.iteration);
}

// Both notions, so that the figures can be set beside those of stats.
std::string iterations_text(const TraceEvents& trace, const std::string& periods) {
  std::string text;
  if (trace.iterations.whole + trace.iterations.begun > 0) {
    text = "iterations, as stats counts them: " + iterations_text(trace.iterations);
    if (trace.iteration_launches > 0)
      text += "; the last whole one has " + counted(trace.iteration_launches, "launch", "launches");
    text += "\n";
  }
  if (periods.empty()) return text;
  return text + "periods that the policies went by, in launches: " + periods +
         "; a policy decides once a period, which may be a part of an iteration, or several\n";
}

std::string budget_remark(const ReplayResult& result) {
  if (result.asked_budget <= result.budget) return {};
  return "budget " + format_bytes(result.budget) + ": " + format_bytes(result.asked_budget) +
         " asked for, no more was free on the recorded card";
}

std::string replay_text(const TraceEvents& trace, const std::vector<NamedReplay>& replays, std::size_t width) {
  if (replays.empty()) return {};
  std::string text = "trace " + trace.state + ", " + counted(trace.launches, "launch", "launches");
  if (trace.dropped > 0) text += ", " + grouped(trace.dropped) + " events were dropped: not an exact replay";
  const ReplayResult& first = replays.front().result;
  if (first.impossible > 0)
    text += ", " + grouped(first.impossible) + " impossible record" + (first.impossible == 1 ? " was" : "s were") +
            " left out";
  text += "\nfigures are of the last " + counted(first.measured.launches, "launch", "launches") +
          ", estimated by a model of the device; costs: " + harmless(trace.costs.source) + "\n";
  if (trace.simulated)
    text +=
        "the trace is of a simulated device: its kernel times are a model's as well, and no time here is one of a "
        "GPU\n";
  TextTable table({{"policy", Align::left},
                   {"budget"},
                   {"time s"},
                   {"of least time"},
                   {"stall s"},
                   {"crossed"},
                   {"of least crossed"},
                   {"moved in"},
                   {"moved out"},
                   {"in place"},
                   {"faulted"},
                   {"refetched"},
                   {"useless"},
                   {"peak"},
                   {"refused"}});
  for (const NamedReplay& each : replays) {
    const ReplayFigures& m = each.result.measured;
    table.add({policy_name(each), size(each.result.budget), fixed(m.seconds, "%.4f"),
               times(m.seconds, has_bound(each) && runs_to_its_end(each.result) ? each.result.bounds.seconds : 0),
               fixed(m.model.stall_seconds, "%.4f"), size(m.model.crossed()),
               times(m.model.crossed(), has_bound(each) ? each.result.bounds.traffic : 0), size(m.model.moved_in),
               size(m.model.moved_out), size(m.model.remote_read + m.model.remote_write), size(m.model.faulted),
               size(m.refetched), size(m.useless), size(each.result.resident_peak),
               std::to_string(each.result.refused)});
  }
  text += "\n" + table.str(width) + "\n" + bounds_text(replays) + peaks_text(replays) + idle_text(replays);
  std::string periods;
  for (const NamedReplay& each : replays) {
    if (each.result.iteration == 0) continue;
    periods += (periods.empty() ? "" : ", ") + harmless(each.name) + " " + grouped(each.result.iteration);
  }
  text += iterations_text(trace, periods);
  text += as_recorded_text(trace, replays);
  text += remarks(replays);
  return text;
}

Json replay_json(const TraceEvents& trace, const std::vector<NamedReplay>& replays) {
  Json json = {{"trace", trace.path},
               {"whole", trace.state == "whole"},
               {"completeness", trace.state},
               {"launches", trace.launches},
               {"dropped_events", trace.dropped}};
  json["costs"] = trace.costs.source;
  json["iterations"] = trace.iterations.whole;
  json["iteration_launches"] = trace.iteration_launches;
  json["simulated"] = trace.simulated;
  json["recorded"] = {{"moved_in_bytes", trace.moved_in.count()}, {"moved_out_bytes", trace.moved_out.count()}};
  json["impossible_events"] = replays.empty() ? 0 : replays.front().result.impossible;
  json["replays"] = Json::array();
  for (const NamedReplay& each : replays) {
    Json one = {{"policy", each.name}};
    one["window_bytes"] = each.result.window.count();
    one["fits"] = each.result.fits();
    one["out_of_memory"] = each.result.out_of_memory > 0;
    one["budget_bytes"] = each.result.budget.count();
    one["asked_budget_bytes"] = each.result.asked_budget.count();
    one["least_budget_bytes"] = each.least_budget == Bytes() ? Json(nullptr) : Json(each.least_budget.count());
    one["plain_peak_bytes"] = each.result.plain_peak.count();
    one["resident_peak_bytes"] = each.result.resident_peak.count();
    one["refused_allocations"] = each.result.refused;
    one["moves"] = each.result.moves;
    one["iteration_launches"] = each.result.iteration;
    one["measured"] = figures_json(each.result.measured);
    one["whole_run"] = figures_json(each.result.all);
    one["bounds"] = {{"seconds", each.result.bounds.seconds},
                     {"compute_seconds", each.result.bounds.compute_seconds},
                     {"traffic_bytes", each.result.bounds.traffic}};
    one["notes"] = each.result.notes;
    json["replays"].push_back(std::move(one));
  }
  return json;
}

}  // namespace spillway::tools
