// What policy wants done, and why. Decisions are policy's only output; the shim carries them out, `replay` prices them.
// A decision is a hint except where it says otherwise: leaving one out costs time, never a result.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// Why. Append only: the numbers are in traces. policy/explain turns a cause into a sentence.
enum class Reason : std::uint8_t {
  mode = 0,               // the configured mode always does this
  rule = 1,               // a rule of the policy file
  small = 2,              // below the size worth spilling
  not_spillable = 3,      // this kind of memory, or this device, cannot be spilled
  fits = 4,               // the run has not shown that it will spill
  expected_spill = 5,     // a budget or plan says that this run will spill
  window_room = 6,        // the window has room
  window_full = 7,        // the window has none
  host_budget = 8,        // host memory is used up
  device_budget = 9,      // device budget is used up
  least_recent = 10,      // least recently launched
  next_use = 11,          // used furthest in the future by the forecast
  upcoming_use = 12,      // needed soon by the forecast
  worth = 13,             // the planner's ranking of worth per byte
  read_only = 14,         // evidence that nothing writes here
  sparse = 15,            // touched sparsely; sampled
  watchdog = 16,          // an earlier decision made its phase slower
  learned_class = 17,     // the class of the span
  over_working_set = 18,  // one launch touches more than the window holds
  oom_first = 19,         // memory.oom_first: would spill, and the program shall have a chance to free first
  hot = 20,               // a probe in it was used (policy/heat.hpp)
  second_chance = 21,     // longest in HBM of a sparse range without being seen in use
  turn = 22,              // its part of the iteration comes, or its turn is over (policy/modes/streaming.hpp)
  turns_end = 23,         // back to where it is when nothing takes turns
};

struct Cause {
  Reason reason = Reason::mode;
  std::uint16_t rule = 0;        // 1-based number of the rule in the policy file; 0 none
  std::uint16_t span_class = 0;  // numeric SpanClass; 0 unknown
  float worth = 0;               // planner: microseconds saved per iteration and MiB; 0 if it did not count
  LaunchNumber launch;           // the launch that asked for it, if one did
  friend bool operator==(const Cause&, const Cause&) = default;
};

// Binding answer to AllocationRequested.
struct BackAllocation {
  AllocationId allocation;
  Backing backing = Backing::device;
  Placement first = Placement::unpopulated;  // managed only: where the pages shall be populated
  friend bool operator==(const BackAllocation&, const BackAllocation&) = default;
};

// Binding answer to AllocationRequested: the program gets the driver's plain out-of-memory code.
struct RefuseAllocation {
  AllocationId allocation;
  Bytes missing;  // by how much the binding limit is exceeded
  friend bool operator==(const RefuseAllocation&, const RefuseAllocation&) = default;
};

enum class Urgency : std::uint8_t {
  background = 0,  // when the link is idle
  deadline = 1,    // needed by `before`
  blocking =
      2,  // the call that caused it waits: room for plain memory, first population in HBM, demand mode's launches
};

// Move whole chunks of one managed allocation. Offsets are multiples of kChunk; the last chunk may be short.
struct MoveRange {
  AllocationId allocation;
  Bytes offset;
  Bytes bytes;
  Placement to = Placement::device;
  Urgency urgency = Urgency::background;
  LaunchNumber after;   // start only when this launch has completed on the device; none = now
  LaunchNumber before;  // forecast launch that needs it; none = no deadline
  friend bool operator==(const MoveRange&, const MoveRange&) = default;
};

enum class Advice : std::uint8_t {
  accessed_by = 0,
  unset_accessed_by = 1,
  prefer_host = 2,
  prefer_device = 3,
  unset_preferred = 4,
  read_mostly = 5,
  unset_read_mostly = 6,
  probe = 7,  // on the host, and unmapped on purpose: the first use is a fault that is seen, and moves nothing
};

// Advice on a range of a managed allocation. Never moves pages by itself.
struct AdviseRange {
  AllocationId allocation;
  Bytes offset;
  Bytes bytes;
  Advice advice = Advice::accessed_by;
  friend bool operator==(const AdviseRange&, const AdviseRange&) = default;
};

// Drop queued work on this allocation: it is about to be freed. Moves in flight end as they end.
struct CancelMoves {
  AllocationId allocation;
  friend bool operator==(const CancelMoves&, const CancelMoves&) = default;
};

// From now on the device's progress shall be told (MarkPassed), at about one launch in so many. Moves nothing.
struct MarkProgress {
  std::uint64_t every = 0;  // launches; 0: no more
  friend bool operator==(const MarkProgress&, const MarkProgress&) = default;
};

// Something a person should know (class found, iteration found, forecast dropped, change taken back). Moves nothing.
struct Note {
  AllocationId allocation;  // none if it is about the run
  Bytes offset;
  Bytes bytes;
  std::string text;
  friend bool operator==(const Note&, const Note&) = default;
};

// The order of alternatives is the trace's record number: append only.
using DecisionBody =
    std::variant<BackAllocation, RefuseAllocation, MoveRange, AdviseRange, CancelMoves, Note, MarkProgress>;

struct Decision {
  DecisionId id;
  Cause cause;
  DecisionBody body;
  friend bool operator==(const Decision&, const Decision&) = default;
};

// The allocation it is about; none if it is about the run.
inline AllocationId about(const DecisionBody& body) {
  return std::visit(
      [](const auto& of) -> AllocationId {
        if constexpr (requires { of.allocation; }) return of.allocation;
        return {};
      },
      body);
}

}  // namespace spillway::policy
