// The simulated device's settings, read once from the environment. This is the only file that reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/simulated_device/injection.hpp"

namespace spillway::simulated {

struct Settings {
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;  // SPILLWAY_SIMULATED_MEMORY: each card's total
  int devices = 1;                                        // SPILLWAY_SIMULATED_DEVICES
  int driver_version = 13000;                             // SPILLWAY_SIMULATED_DRIVER_VERSION: newest ABI offered
  bool managed = true;                                    // SPILLWAY_SIMULATED_NO_MANAGED=1 clears it
  bool host_numa = true;                                  // SPILLWAY_SIMULATED_NO_HOST_NUMA=1 clears it
  std::vector<std::string> twin_libraries;                // SPILLWAY_SIMULATED_KERNELS, else lib*_twins.so beside us
  std::string report_path;                                // SPILLWAY_SIMULATED_REPORT; %p is the process id
  std::vector<Injection> injections;                      // SPILLWAY_SIMULATED_FAULTS
  std::vector<std::string> problems;                      // one line each; cuInit fails when there are any
};

Settings read_settings();

}  // namespace spillway::simulated
