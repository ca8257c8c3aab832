// The seam between the program and the decisions: an event goes in, decisions come out.
//
// A pure function of its events, settings and costs: no clock, environment, thread, file or CUDA. Not thread-safe; the
// caller orders events and holds the lock. `process` never throws for any event order (an impossible event is ignored
// and counted), because it runs inside somebody else's program.
//
// Promises, held in every mode and checked by tests:
//  - each AllocationRequested is answered by exactly one BackAllocation or RefuseAllocation among its decisions;
//  - resident() + bytes of moves to the device that are still open never exceed window() on any device;
//  - no decision names a freed allocation or a range outside one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/forecast.hpp"
#include "policy/rule.hpp"
#include "policy/settings.hpp"
#include "policy/use_found.hpp"

namespace spillway::policy {

// Everything counted for one device, as `cuMemGetInfo`, `top`, `stats` and the trace show it.
struct DeviceTotals {
  Bytes budget;         // HBM that this process may fill
  Bytes plain;          // live plain device memory, counted kinds included
  Bytes reserved;       // our own (migration context)
  Bytes managed;        // live managed memory, wherever its pages are
  Bytes resident;       // managed pages in HBM
  Bytes arriving;       // managed pages on their way in
  Bytes on_host;        // managed pages whose home is host memory
  Bytes window;         // what managed pages may fill now: budget - plain - reserved, capped by the setting
  Bytes resident_peak;  // highest resident + arriving
  Bytes total_virtual;  // what the program may allocate in all: budget + host budget
  Bytes moved_in;       // since the start
  Bytes moved_out;
};

// One live managed allocation, as `top` shows it.
struct AllocationTotals {
  AllocationId id;
  DeviceIndex device;
  Bytes bytes;
  Bytes resident;
  Bytes on_host;
  Bytes crossed;  // the link, both ways
  std::uint16_t span_class = 0;
  CallerId caller;
};

class Engine {
 public:
  // `rules`: of the policy file, first match wins; modes other than `off` obey them at allocation, `adaptive` always.
  // `costs`: of the machine that runs, or ran.
  explicit Engine(Settings settings, std::vector<Rule> rules = {}, const CostTable& costs = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Appends to `decisions`; what it held before is left alone.
  void process(const Event& event, std::vector<Decision>& decisions);

  // That there is for what spills, whatever the budget for it says: free, or filled by it.
  [[nodiscard]] Bytes host_memory() const;
  // Whether such a request would get managed memory if it was made now (rules that name its caller left aside).
  [[nodiscard]] bool would_spill(const AllocationRequested& request) const;
  [[nodiscard]] DeviceTotals totals(DeviceIndex device) const;
  // Moves need a context of ours on the device. What the budget lacks of the room for it; nothing where it is made.
  // While it lacks any, memory that spills is born on the host and stays there.
  [[nodiscard]] Bytes lacking_to_move(DeviceIndex device) const;
  [[nodiscard]] const Settings& settings() const;
  [[nodiscard]] std::uint64_t ignored_events() const;  // impossible in a correct shim
  [[nodiscard]] LaunchNumber launches() const;
  // Of the iteration that the mode has found; zero if there is none.
  [[nodiscard]] LaunchCount iteration() const;
  [[nodiscard]] IterationProgress progress() const;
  // At most `most` allocations, those first that crossed the link most, then those with most on the host. Looks at all
  // managed ones.
  [[nodiscard]] std::vector<AllocationTotals> most_moved(std::size_t most) const;
  [[nodiscard]] const std::string& library(CallerId caller) const;  // empty if unknown

  // Whether telemetry shall tell of pages that faults map (PageTraffic::remote_map).
  [[nodiscard]] bool wants_page_hits() const;
  // What the mode has found of live memory. Looks at the whole latest profile.
  [[nodiscard]] UseFound found(AllocationId allocation) const;

  // Slow, complete check of every invariant; the text names the first one broken, empty if all hold. Tests and fuzzers.
  [[nodiscard]] std::string check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spillway::policy
