// The names of all variables that the simulated device reads, and what its numbers may be. Also part of the `spillway`
// command, which checks them before a program starts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::simulated {

inline constexpr const char* kVariablePrefix = "SPILLWAY_SIMULATED_";

struct NumberVariable {
  const char* name;
  std::uint64_t least;
  std::uint64_t most;
  const char* remedy;
};
inline constexpr NumberVariable kDevices{"SPILLWAY_SIMULATED_DEVICES", 0, 8, "give a number of devices from 0 to 8"};
inline constexpr NumberVariable kDriverVersion{"SPILLWAY_SIMULATED_DRIVER_VERSION", 11000, 13000,
                                               "give a CUDA driver version from 11000 to 13000, for example 12000"};
inline constexpr NumberVariable kNoManaged{"SPILLWAY_SIMULATED_NO_MANAGED", 0, 1, "give 0 or 1"};
inline constexpr NumberVariable kNoHostNuma{"SPILLWAY_SIMULATED_NO_HOST_NUMA", 0, 1, "give 0 or 1"};
inline constexpr std::array kNumberVariables = {kDevices, kDriverVersion, kNoManaged, kNoHostNuma};

inline constexpr std::array<std::string_view, 4> kOtherVariables = {
    "SPILLWAY_SIMULATED_MEMORY", "SPILLWAY_SIMULATED_KERNELS", "SPILLWAY_SIMULATED_REPORT",
    "SPILLWAY_SIMULATED_FAULTS"};

struct NumberReading {
  std::uint64_t value = 0;
  std::string problem;  // one line with the remedy, or nothing
};
NumberReading read_number(const NumberVariable& variable, const std::string& text);

}  // namespace spillway::simulated
