#include "tools/expectation.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "policy/queue_depth.hpp"
#include "policy/size_text.hpp"
#include "tools/least_budget.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

// Without an iteration, the recording's clock is read over so many launches at a time: programs wait now and then.
constexpr std::uint64_t kLaunchesAtATime = 256;
// Of the recorded run's modelled time, what must be waiting before waiting is what is corrected.
constexpr double kWaits = 0.1;
// Times that waiting can take of what it is said to; what a recording took beyond is the program's own time.
constexpr double kMostWaiting = 20;
// A recording faster than this share of its own computing is of a program that never waits for its launches: its clock
// says when it asked for them, not when they ran.
constexpr double kRanAhead = 0.5;
// Of so many times the launches that it can be ahead by, the clock says when they ran, but for an eighth. A graph
// launch has room of its own.
constexpr std::uint64_t kQueues = 8;

std::string expected_time(double seconds) {
  char text[48];
  std::snprintf(text, sizeof text, seconds < 1e-3 ? "%.4f ms" : "%.2f ms", seconds * 1e3);
  return text;
}

std::string expected_bytes(double bytes) { return format_bytes(Bytes(static_cast<std::uint64_t>(bytes))); }

std::vector<double> launch_times(const std::vector<Event>& events) {
  std::vector<double> times;
  for (const Event& event : events) {
    if (std::holds_alternative<Launched>(event.body) || std::holds_alternative<GraphLaunched>(event.body))
      times.push_back(static_cast<double>(event.time.count()) * 1e-9);
  }
  return times;
}

bool launches_graphs(const TraceEvents& trace) {
  return std::any_of(trace.events.begin(), trace.events.end(),
                     [](const Event& event) { return std::holds_alternative<GraphLaunched>(event.body); });
}

Corrected corrected_by(const TraceEvents& trace, double recorded, Modelled then, std::uint64_t launches) {
  if (trace.simulated) return Corrected::not_a_gpu;
  if (recorded <= 0 || then.seconds <= 0) return Corrected::not_timed;
  if (recorded >= kRanAhead * then.rest()) return Corrected::by_the_recording;
  const bool waited = launches >= kQueues * kQueueDepth && !launches_graphs(trace);
  return waited ? Corrected::by_the_recording : Corrected::clock_ran_ahead;
}

std::string_view corrected_word(Corrected corrected) {
  constexpr std::string_view kWords[] = {"by_the_recording", "not_timed", "not_a_gpu", "clock_ran_ahead"};
  return kWords[static_cast<std::size_t>(corrected)];
}

std::string basis_text(const Expectation& expected) {
  switch (expected.corrected) {
    case Corrected::by_the_recording:
      return "The model says " + expected_time(expected.model_seconds) +
             ", before it is corrected by the recorded run, which took " + expected_time(expected.recorded_seconds) +
             " where it says " + expected_time(expected.recorded_model_seconds) + ".";
    case Corrected::not_timed:
      return "By the model alone: the trace is too short to say what the recorded run took.";
    case Corrected::not_a_gpu:
      return "By the model alone: the trace is of a simulated device, whose times say nothing of a GPU.";
    case Corrected::clock_ran_ahead:
      return "By the model alone: the recorded run did not wait for its launches, so what it took is not known.";
  }
  return {};
}

std::string does_not_fit(const Expectation& expected) {
  if (expected.fits) return ". ";
  if (expected.least_budget == Bytes()) return ". It does not fit: allocations are refused. ";
  return ". It does not fit: allocations are refused; the least budget that would do is " +
         budget_text(expected.least_budget) + ". ";
}

}  // namespace

double recorded_seconds(const TraceEvents& trace, std::uint64_t from, std::uint64_t unit) {
  const std::vector<double> times = launch_times(trace.events);
  std::vector<double> taken;
  for (std::uint64_t first = from; unit > 0 && first + unit < times.size(); first += unit)
    taken.push_back(std::max(0.0, times[first + unit] - times[first]));
  if (taken.size() < 2) return 0;
  const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
  std::nth_element(taken.begin(), middle, taken.end());
  return *middle;
}

double corrected(Modelled next, double recorded, Modelled then) {
  // Of a recording in which nothing waited, the rest is what is known.
  if (then.stall < kWaits * then.seconds) return next.rest() * (recorded - then.stall) / then.rest() + next.stall;
  // One that waited and was faster than its computing alone is said to be: both are wrong by the same factor.
  if (recorded <= then.rest()) return next.seconds * recorded / then.seconds;
  const double waiting = std::min(kMostWaiting, (recorded - then.rest()) / then.stall);
  const double own = recorded - then.rest() - waiting * then.stall;
  return next.rest() + waiting * next.stall + own;
}

Expectation expect_of(const TraceEvents& trace, const NamedReplay& replay, const NamedReplay& recorded) {
  const ReplayResult& result = replay.result;
  Expectation expected;
  // The policy goes by a period as soon as it suspects one; what stats does not count as one is none to promise for.
  const bool repeats = trace.iterations.whole > 0;
  expected.iteration_launches = repeats ? result.iteration : 0;
  expected.budget = result.budget;
  expected.resident_peak = result.resident_peak;
  expected.least_budget = replay.least_budget;
  expected.fits = result.fits() && result.refused == 0;
  const auto launches = static_cast<double>(result.measured.launches);
  if (launches <= 0 || recorded.result.measured.launches == 0) return expected;
  const double found = repeats ? iterations(result) : 0;
  const double units = found > 0 ? found : launches;
  expected.units_measured = units;
  expected.model_seconds = result.measured.seconds / units;
  expected.compute_seconds = result.measured.model.compute_seconds / units;
  expected.crossed_bytes = result.measured.model.crossed() / units;
  expected.least_model_seconds = result.bounds.seconds / units;
  expected.least_bytes = result.bounds.traffic / units;
  const std::uint64_t unit = found > 0 ? result.iteration : kLaunchesAtATime;
  const double a_unit = found > 0 ? 1 : 1 / static_cast<double>(kLaunchesAtATime);
  expected.recorded_seconds = recorded_seconds(trace, trace.launches - result.measured.launches, unit) * a_unit;
  const ReplayFigures& ran = recorded.result.measured;
  const double ran_units = units * static_cast<double>(ran.launches) / launches;
  const Modelled then{ran.seconds / ran_units, ran.model.stall_seconds / ran_units};
  expected.recorded_model_seconds = then.seconds;
  expected.corrected = corrected_by(trace, expected.recorded_seconds, then, ran.launches);
  const auto by_the_recording = [&](Modelled next) {
    return expected.corrected == Corrected::by_the_recording ? corrected(next, expected.recorded_seconds, then)
                                                             : next.seconds;
  };
  expected.seconds = by_the_recording({expected.model_seconds, result.measured.model.stall_seconds / units});
  // Its waiting is what it takes beyond its computing. A bound that came out above what is expected would be none.
  const double least_stall = std::max(0.0, result.bounds.seconds - result.bounds.compute_seconds) / units;
  expected.least_seconds = std::min(expected.seconds, by_the_recording({expected.least_model_seconds, least_stall}));
  return expected;
}

std::string expectation_text(const Expectation& expected) {
  const std::string unit = expected.iteration_launches > 0
                               ? "an iteration of " + counted(expected.iteration_launches, "launch", "launches")
                               : "a launch, for no iteration was found";
  const std::string bound =
      expected.crossed_bytes == 0
          ? ", nothing over the link"
          : ", " + expected_bytes(expected.crossed_bytes) + " over the link; no placement can do better than " +
                expected_time(expected.least_seconds) + " or " + expected_bytes(expected.least_bytes);
  return "Expected with a budget of " + format_bytes(expected.budget) + ": " + expected_time(expected.seconds) + " " +
         unit + bound + does_not_fit(expected) + basis_text(expected);
}

nlohmann::ordered_json expectation_json(const Expectation& expected) {
  using Json = nlohmann::ordered_json;
  return {
      {"budget_bytes", expected.budget.count()},
      {"iteration_launches", expected.iteration_launches},
      {"figures_of", expected.iteration_launches > 0 ? "iteration" : "launch"},
      {"measured", expected.units_measured},
      {"seconds", expected.seconds},
      {"model_seconds", expected.model_seconds},
      {"corrected", corrected_word(expected.corrected)},
      {"recorded_seconds", expected.recorded_seconds},
      {"recorded_model_seconds", expected.recorded_model_seconds},
      {"compute_seconds", expected.compute_seconds},
      {"crossed_bytes", expected.crossed_bytes},
      {"least_seconds", expected.least_seconds},
      {"least_model_seconds", expected.least_model_seconds},
      {"least_bytes", expected.least_bytes},
      {"resident_peak_bytes", expected.resident_peak.count()},
      {"fits", expected.fits},
      {"least_budget_bytes", expected.least_budget == Bytes() ? Json(nullptr) : Json(expected.least_budget.count())}};
}

}  // namespace spillway::tools
