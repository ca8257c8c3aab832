#include "tools/expectation.hpp"

#include <cstdio>

#include "policy/size_text.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

std::string expected_time(double seconds) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  return text;
}

std::string expected_bytes(double bytes) { return format_bytes(Bytes(static_cast<std::uint64_t>(bytes))); }

}  // namespace

Expectation expect_of(const NamedReplay& replay) {
  const ReplayResult& result = replay.result;
  Expectation expected;
  expected.iteration_launches = result.iteration;
  const double found = iterations(result);
  const double units = found > 0 ? found : static_cast<double>(result.measured.launches);
  expected.units_measured = units;
  expected.budget = result.budget;
  expected.resident_peak = result.resident_peak;
  expected.fits = result.fits() && result.refused == 0;
  if (units <= 0) return expected;
  expected.seconds = result.measured.seconds / units;
  expected.compute_seconds = result.measured.model.compute_seconds / units;
  expected.crossed_bytes = result.measured.model.crossed() / units;
  expected.least_seconds = result.bounds.seconds / units;
  expected.least_bytes = result.bounds.traffic / units;
  return expected;
}

std::string expectation_text(const Expectation& expected) {
  const std::string unit = expected.iteration_launches > 0
                               ? "an iteration of " + grouped(expected.iteration_launches) + " launches"
                               : "a launch, for no iteration was found";
  return "expected with a budget of " + format_bytes(expected.budget) + ": " + expected_time(expected.seconds) + " " +
         unit + ", " + expected_bytes(expected.crossed_bytes) + " over the link; no placement can do better than " +
         expected_time(expected.least_seconds) + " or " + expected_bytes(expected.least_bytes) +
         (expected.fits ? "" : "; it does not fit: allocations are refused");
}

nlohmann::ordered_json expectation_json(const Expectation& expected) {
  return {{"budget_bytes", expected.budget.count()},
          {"iteration_launches", expected.iteration_launches},
          {"figures_of", expected.iteration_launches > 0 ? "iteration" : "launch"},
          {"measured", expected.units_measured},
          {"seconds", expected.seconds},
          {"compute_seconds", expected.compute_seconds},
          {"crossed_bytes", expected.crossed_bytes},
          {"least_seconds", expected.least_seconds},
          {"least_bytes", expected.least_bytes},
          {"resident_peak_bytes", expected.resident_peak.count()},
          {"fits", expected.fits}};
}

}  // namespace spillway::tools
