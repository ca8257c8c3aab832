// What happened on the simulated device: counters, readable by tests through exported functions and written as JSON at
// exit.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/simulated_device/entry_points.hpp"

namespace spillway::simulated {

struct BadFree {
  std::uint64_t address = 0;
  bool freed_before = false;  // a double free; else an address that was never allocated
};

struct Statistics {
  std::array<std::uint64_t, kEntryPoints> calls{};
  std::array<std::uint64_t, kEntryPoints> injected{};
  std::uint64_t launches = 0;
  std::map<std::string, std::uint64_t> launches_by_name;
  std::uint64_t host_to_device_bytes = 0;  // copies and migration
  std::uint64_t device_to_host_bytes = 0;
  std::uint64_t migrated_in_bytes = 0;  // managed pages only, by prefetch or fault
  std::uint64_t migrated_out_bytes = 0;
  std::uint64_t remote_bytes = 0;
  std::uint64_t faults = 0;
  std::uint64_t mapping_faults = 0;    // of them, those that mapped host pages in place
  std::uint64_t driver_evictions = 0;  // chunks the driver took off the device by itself
  std::uint64_t driver_evicted_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::vector<BadFree> bad_frees;
};

// Writes the JSON report to the path of SPILLWAY_SIMULATED_REPORT; nothing when it is not set.
void write_report();
// After it: the real driver begins to end then, and a call that is still in it, or comes later, may not end well. Its
// name is added to a file of the report's name and ".late".
void note_late_call(EntryPoint entry);
std::string report_json();

}  // namespace spillway::simulated
