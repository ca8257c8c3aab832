// The trace's header and end as values, and as the JSON text that is in the file.
//
// Encoding uses no JSON library (it runs inside the program); decoding, in header_decode.cpp, does, and reads what it
// can: a missing or odd field keeps its default, unknown fields are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/engine.hpp"
#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy::trace {

// Of the policy file that was in force. What decisions say of rules is their place in the list, from 1.
struct RuleSeen {
  std::string name;        // cut at kMostRuleName
  std::uint32_t line = 0;  // in the file
  friend bool operator==(const RuleSeen&, const RuleSeen&) = default;
};
inline constexpr std::size_t kMostRuleName = 256;

struct TraceHeader {
  std::string program;                 // path of the executable
  std::vector<std::string> arguments;  // argv, program name included
  std::uint64_t pid = 0;
  std::uint64_t parent_pid = 0;
  std::string start;  // RFC 3339, with the offset from UTC
  std::string host;
  std::string rank;                 // as the launcher says; empty if none does
  std::vector<DeviceSeen> devices;  // those known when the trace begins; others follow as events
  std::string driver_version;       // "13.0"
  std::string build;                // Spillway's version
  std::vector<std::pair<std::string, std::string>> settings;  // key and value as one writes it, every one
  std::vector<RuleSeen> rules;                                // empty in traces from before they were recorded
  std::string cost_table = "{}";                              // JSON object, put in as it is; empty: the built-in costs
  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

struct DeviceEnd {
  DeviceIndex device;
  DeviceTotals totals;
};

// How the run ended. Its presence in a file means that the trace is whole.
struct TraceEnd {
  std::string reason;  // "exit", "signal", "unloaded"
  std::uint64_t launches = 0;
  std::uint64_t decisions = 0;
  std::uint64_t dropped_events = 0;  // did not fit a ring
  std::uint64_t dropped_frames = 0;  // did not fit the writer's queue
  std::uint64_t ignored_events = 0;  // impossible ones, by the engine
  std::vector<DeviceEnd> devices;
};

[[nodiscard]] std::string encode_header(const TraceHeader& header);
[[nodiscard]] std::string encode_end(const TraceEnd& end);

// Nothing if the text is no JSON object, or is nested deeper than any that is written.
[[nodiscard]] std::optional<TraceHeader> decode_header(std::string_view json);
[[nodiscard]] std::optional<TraceEnd> decode_end(std::string_view json);

// One row per number of DeviceTotals, so that encode and decode cannot differ.
struct TotalField {
  std::string_view name;
  Bytes DeviceTotals::*member;
};
inline constexpr TotalField kTotalFields[] = {
    {"budget", &DeviceTotals::budget},
    {"plain", &DeviceTotals::plain},
    {"reserved", &DeviceTotals::reserved},
    {"managed", &DeviceTotals::managed},
    {"resident", &DeviceTotals::resident},
    {"arriving", &DeviceTotals::arriving},
    {"on_host", &DeviceTotals::on_host},
    {"window", &DeviceTotals::window},
    {"resident_peak", &DeviceTotals::resident_peak},
    {"total_virtual", &DeviceTotals::total_virtual},
    {"moved_in", &DeviceTotals::moved_in},
    {"moved_out", &DeviceTotals::moved_out},
};

}  // namespace spillway::policy::trace
