// What tests may ask the stand-in driver, beside the CUDA driver API. Plain C functions, found with dlsym in
// libcuda.so.1 (the real driver has none of them) or linked directly. Every function may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::simulated {

struct SimulatedStatistics {
  std::int64_t virtual_time_ns = 0;
  std::uint64_t launches = 0;
  std::uint64_t faults = 0;                // device faults on managed pages
  std::uint64_t driver_evictions = 0;      // chunks the driver itself took off the device: must stay 0 under Spillway
  std::uint64_t host_to_device_bytes = 0;  // copies and migration together
  std::uint64_t device_to_host_bytes = 0;
  std::uint64_t migrated_in_bytes = 0;  // managed pages only
  std::uint64_t migrated_out_bytes = 0;
  std::uint64_t remote_bytes = 0;  // read or written over the link, in place
  std::uint64_t live_allocations = 0;
  std::uint64_t bad_frees = 0;  // double frees and frees of what was never allocated
  std::uint64_t plain_bytes = 0;
  std::uint64_t managed_resident_bytes = 0;
  std::uint64_t managed_resident_peak_bytes = 0;
  std::uint64_t resident_peak_bytes = 0;  // plain and managed together
};

}  // namespace spillway::simulated

extern "C" {
void spillway_simulated_statistics(spillway::simulated::SimulatedStatistics* out);
// Calls so far of an exported symbol, such as "cuMemPrefetchAsync_v2".
std::uint64_t spillway_simulated_calls(const char* symbol);
// Of the 2 MiB chunk the address lies in: 0 unpopulated, 1 device, 2 host, 3 duplicated; -1 not managed memory.
int spillway_simulated_residency(std::uint64_t address);
// The JSON report so far; returns its length.
std::size_t spillway_simulated_report(char* text, std::size_t room);
std::int64_t spillway_simulated_virtual_time();
}
