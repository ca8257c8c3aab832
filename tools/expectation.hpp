// What `spillway plan` expects of the next run: the time of a step under a budget, by a replay.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "policy/units.hpp"
#include "tools/replay.hpp"
#include "tools/trace_events.hpp"

namespace spillway::tools {

// Figures are of one iteration, as the replay found it; of one launch if it found none. A step of the program may be
// several iterations, or a part of one: `iteration_launches` against the launches of a step says which.
//
// The model does not know what a kernel does with the memory that it is given, so its figure is corrected by the one
// run that is known: the recorded one is replayed as well, and what it took beyond its computing, against what the
// model says that it should have, scales the waiting that is expected. A recording in which nothing waited scales the
// rest. Whatever is modelled like the recorded run is expected to take what that took.
//
// What a time is corrected by; if by nothing, why.
enum class Corrected : std::uint8_t {
  by_the_recording,
  not_timed,       // fewer than two iterations were recorded
  not_a_gpu,       // on a simulated device, whose times say nothing
  clock_ran_ahead  // the program never waited for its launches: its clock says when it asked for them
};

struct Expectation {
  Corrected corrected = Corrected::not_timed;
  std::uint64_t iteration_launches = 0;  // 0: none was found
  double units_measured = 0;             // iterations, or launches, that the figures are the mean of
  double seconds = 0;                    // corrected
  double model_seconds = 0;              // as modelled
  double recorded_seconds = 0;           // of the recorded run, by its clock; 0 unknown
  double recorded_model_seconds = 0;     // of the recorded run, as modelled
  double compute_seconds = 0;            // what would remain if all fitted, as modelled
  double crossed_bytes = 0;
  double least_seconds = 0;        // no placement can do better; corrected alike
  double least_model_seconds = 0;  // as modelled
  double least_bytes = 0;
  policy::Bytes budget;
  policy::Bytes resident_peak;
  policy::Bytes least_budget;  // where it does not fit, and that is known
  bool fits = true;
};

// `recorded`: the same trace under the policy that it was recorded under.
Expectation expect_of(const TraceEvents& trace, const NamedReplay& replay, const NamedReplay& recorded);

// Seconds that `unit` launches took by the recording's clock, the median of those after launch `from`; 0 if there are
// fewer than two units.
double recorded_seconds(const TraceEvents& trace, std::uint64_t from, std::uint64_t unit);

// Seconds of a run as modelled, of which `stall` is waiting for memory.
struct Modelled {
  double seconds = 0;
  double stall = 0;
  [[nodiscard]] double rest() const { return seconds - stall; }
};

// `next` corrected by a recording that took `recorded` where the model says `then`. All for the same launches.
double corrected(Modelled next, double recorded, Modelled then);

// Two sentences for a person.
std::string expectation_text(const Expectation& expected);
nlohmann::ordered_json expectation_json(const Expectation& expected);

}  // namespace spillway::tools
