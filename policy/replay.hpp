// Runs recorded events through an engine with other settings, and closes the loop: what the engine decides is carried
// out on a virtual card by the device model, and what came of it goes back in as events. The trace's own MoveFinished,
// MarkPassed, PagesObserved, KernelTimed and TelemetryChanged belong to the run that was recorded and are left out, and
// so is what cannot have happened (possible_events.hpp): any events give an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/allocation_lives.hpp"
#include "policy/bounds.hpp"
#include "policy/cost_table.hpp"
#include "policy/decision.hpp"
#include "policy/device_model.hpp"
#include "policy/engine.hpp"
#include "policy/event.hpp"
#include "policy/policy_file.hpp"
#include "policy/settings.hpp"
#include "policy/shape_costs.hpp"

namespace spillway::policy {

struct ReplayOptions {
  // Figures count from after this launch on (learning left out); none: from the start.
  LaunchNumber measure_after;
  enum class Keep : std::uint8_t { figures, decisions } keep = Keep::figures;
  enum class WithBounds : std::uint8_t { no, yes } bounds = WithBounds::yes;
  // Checks the engine's promises after each event; slow.
  enum class Check : std::uint8_t { no, yes } check = Check::no;
};

struct ReplayFigures {
  ModelTotals model;   // bytes each way, stalls
  double seconds = 0;  // estimated
  Bytes refetched;     // moved in again after it had left
  Bytes useless;       // moved in and sent out again without a use
  std::uint64_t launches = 0;
};

struct ReplayResult {
  ReplayFigures all;
  ReplayFigures measured;
  Bounds bounds;                    // of the measured part
  Bytes resident_peak;              // on the card
  Bytes window;                     // the largest of the measured launches
  Bytes budget;                     // of device 0; without one, in mode off, the whole card
  Bytes asked_budget;               // of device 0: what the policy asks for; more than `budget` if no more was free
  Bytes plain_peak;                 // device memory that cannot move, at most
  DeviceTotals totals;              // of device 0, as the engine counts
  std::uint64_t refused = 0;        // allocations
  std::uint64_t out_of_memory = 0;  // of them, those that are not memory.oom_first's
  std::uint64_t iteration = 0;      // launches of the iteration that was found last; 0 none
  std::uint64_t moves = 0;
  std::uint64_t impossible = 0;     // events that were left out, since no program can have made them
  std::vector<Decision> decisions;  // as asked for
  std::vector<std::string> notes;
  std::vector<FinalPlacement> placements;  // managed allocations that live at the end, by order
  std::vector<FinalPlacement> freed;       // those that were there for half of the launches or more, by order
  std::string broken;                      // the first promise found broken, if checked

  // Mode off moves nothing: it runs only where everything fits.
  [[nodiscard]] bool fits() const { return plain_peak <= budget; }
};

ReplayResult replay(std::span<const Event> events, const PolicyFile& policy, const ShapeCosts& shapes,
                    const CostTable& costs, const ReplayOptions& options);

}  // namespace spillway::policy
