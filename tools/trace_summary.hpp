// What a trace holds, in figures: the one place that adds them up, for stats, replay, plan and view.
//
// Fed record by record, in the bounded memory of RunFollower, which says what the records did.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/trace/trace_reader.hpp"
#include "tools/moving_faults.hpp"
#include "tools/run_follower.hpp"

namespace spillway::tools {

struct CountAndBytes {
  std::uint64_t count = 0;
  policy::Bytes bytes;
  void add(policy::Bytes more) {
    ++count;
    bytes += more;
  }
};

struct DeviceSummary {
  policy::DeviceSeen seen;
  policy::DeviceTotals totals;       // at the end; from the trace's end if it is there, else added up here
  bool totals_are_recorded = false;  // the former
  CountAndBytes reserved;
  policy::Bytes on_host_peak;  // added up here, even where the totals are recorded
};

struct FunctionSummary {
  std::string name;
  std::uint64_t launches = 0;
  std::uint64_t timed = 0;          // launches with a kernel time
  policy::Nanoseconds kernel_time;  // of those
};

struct TraceSummary {
  std::string path;
  policy::trace::TraceHeader header;
  std::string completeness;  // "whole", or what is wrong with it
  bool whole = false;
  bool reached_max_size = false;  // what came later is counted, not written
  bool loss_is_counted = false;   // whatever is missing; false: cut, damaged, or without its end
  bool header_is_known = true;    // false: damaged, and all that it says is missing
  std::string end_reason;
  std::uint64_t file_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t unknown_records = 0;
  policy::Nanoseconds duration;  // time of the last record

  std::vector<DeviceSummary> devices;                   // by index
  std::array<CountAndBytes, 10> allocations_by_kind;    // as requested; AllocationKind
  std::array<CountAndBytes, 2> allocations_by_backing;  // as settled; Backing
  std::uint64_t allocations = 0;
  std::uint64_t failed_allocations = 0;  // by the driver
  CountAndBytes refused;                 // by us
  std::uint64_t frees = 0;
  CountAndBytes live_at_end;
  CountAndBytes live_at_peak;  // when most bytes were allocated, of any backing

  std::uint64_t launches = 0;  // of graphs: one each
  std::uint64_t graph_launches = 0;
  std::uint64_t shapes = 0;
  std::vector<FunctionSummary> functions;  // most launches first
  std::array<CountAndBytes, 4> copies;     // by the program; CopyKind
  CountAndBytes fills;

  std::array<CountAndBytes, 4> moves_done;  // by the placement moved to; bytes whose placement changed
  policy::Bytes refetched;                  // moved in again after it had left HBM
  policy::Bytes useless;                    // moved in, and moved out or freed before anything touched it
  std::uint64_t moves_failed = 0;
  std::uint64_t moves_cancelled = 0;
  std::uint64_t moves_open = 0;                       // at the end
  std::array<CountAndBytes, 5> page_traffic;          // telemetry; PageTraffic
  std::array<CountAndBytes, 5> spilled_page_traffic;  // of it, in memory that we manage
  std::uint64_t moving_faults = 0;                    // of its GPU page faults, on memory that was being moved
  std::uint64_t timed_launches = 0;                   // telemetry
  std::uint64_t lost_windows = 0;                     // of kernel times, thrown away
  std::string telemetry;                              // the last thing said of it

  std::map<std::pair<std::size_t, policy::Reason>, CountAndBytes> decisions;  // by kind (position) and reason
  std::uint64_t decision_count = 0;
  std::uint64_t dropped_events = 0;
  std::uint64_t dropped_frames = 0;
  std::uint64_t ignored_events = 0;

  [[nodiscard]] policy::Bytes moved_in() const;
  [[nodiscard]] policy::Bytes moved_out() const;
  [[nodiscard]] policy::Bytes on_host_peak() const;
  [[nodiscard]] bool simulated() const;               // on the simulated device, by its name
  [[nodiscard]] bool off() const;                     // nothing was bounded or moved
  [[nodiscard]] policy::Bytes resident_peak() const;  // of all devices
};

// Feeds the records to `run` and adds up what they say.
class TraceSummarizer {
 public:
  explicit TraceSummarizer(RunFollower& run) : run_(run) {}
  void add(const policy::trace::Record& record);
  // Once, at the end.
  TraceSummary finish(const std::string& path, const policy::trace::TraceReader& reader);

 private:
  struct EventAdder;
  struct BytesOf;
  DeviceSummary& device(policy::DeviceIndex index);
  struct OfFunction {
    std::uint64_t launches = 0;
    std::uint64_t timed = 0;
    policy::Nanoseconds kernel_time;
  };
  struct Stretch {
    policy::Bytes bytes;
    policy::Backing backing = policy::Backing::device;
  };
  void add_move(const policy::MoveFinished& finished);
  OfFunction& of_function(policy::FunctionId function);
  void add_time(const policy::KernelTimed& timed);
  void add_stretch(const policy::AllocationSettled& settled);
  void add_pages(const policy::PagesObserved& pages);
  void add_end(const policy::trace::TraceReader& reader);

  RunFollower& run_;
  TraceSummary summary_;
  CountAndBytes live_;
  std::vector<OfFunction> functions_;             // by id; 0: shape unknown
  std::map<policy::Address, Stretch> stretches_;  // memory by address; freed ones until it is used anew
  MovingFaults moving_faults_;
};

// Reads one file into a summary; the text is what is wrong with a file that cannot be read.
struct SummaryReading {
  TraceSummary summary;
  std::optional<std::string> problem;
};
SummaryReading summarize(const std::string& path);

const char* name_of(policy::Reason reason);
const char* name_of(policy::AllocationKind kind);
const char* name_of_decision(std::size_t position);  // in DecisionBody

}  // namespace spillway::tools
