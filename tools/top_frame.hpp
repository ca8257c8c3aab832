// What `spillway top` shows of a run at one moment, wherever it comes from: the trace, or the page of a running
// process.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "policy/units.hpp"
#include "tools/terminal.hpp"

namespace spillway::tools {

struct TopDevice {
  std::uint32_t device = 0;
  std::string name;
  policy::Bytes budget;  // zero: `no_budget` says why
  policy::Bytes plain, reserved, managed, resident, on_host;
  policy::Bytes resident_peak;
  std::optional<policy::Bytes> plain_peak, on_host_peak;  // a page has none
  policy::Bytes moved_in, moved_out;
  double in_per_second = 0;
  double out_per_second = 0;
};

struct TopAllocation {
  std::uint32_t allocation = 0;
  policy::Bytes bytes, in_hbm, on_host, crossed;
  std::uint16_t span_class = 0;
  std::string caller;  // library that asked for it
};

struct TopFrame {
  std::string trace;  // path; empty: the page of the process
  std::string program, host, rank;
  std::uint64_t pid = 0;
  bool header_known = true;     // false: of a damaged trace, which says neither program nor process
  std::uint64_t asked_for = 0;  // the process that was named, if this is a child of it
  std::string state;            // "running", "ended by exit"; a page: "killed"; a trace: that it has no end, and why
  std::string completeness;     // of a trace: "whole", or what is missing, with the offset; empty while it is written
  bool ended = false;
  std::int64_t quiet_seconds = 0;  // since the last event; 0: the run has ended, or it is not known
  std::string last_event;          // of a trace that has no end and may not go on: its date; empty if not known
  policy::Nanoseconds time;
  std::uint64_t launches = 0;
  double launches_per_second = 0;  // this and the devices' rates: lately; of a run that has ended, all through it
  std::uint64_t iteration = 0;     // 0: none was found
  std::uint64_t iteration_launches = 0;
  policy::Nanoseconds iteration_took;  // the last whole one; zero: none
  std::string no_iteration;            // what to say where none was found
  std::string no_budget;               // what to say in place of one
  std::vector<TopDevice> devices;
  std::vector<TopAllocation> allocations;

  // A trace with gaps or without its end, and nothing more to come.
  [[nodiscard]] bool is_partial() const { return !completeness.empty() && completeness != "whole"; }
};

// For a frame of a run that has ended: what it did in its last moments says nothing.
void take_rates_of_whole_run(TopFrame& frame);

[[nodiscard]] std::string text_of(const TopFrame& frame, const Terminal& terminal);
[[nodiscard]] nlohmann::ordered_json json_of(const TopFrame& frame);

}  // namespace spillway::tools
