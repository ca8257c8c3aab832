// The memory of a simulated card, from the text of SPILLWAY_SIMULATED_MEMORY. Also part of the `spillway` command,
// which checks it before a program starts.
#pragma once

#include <cstdint>
#include <string>

namespace spillway::simulated {

inline constexpr const char* kMemoryVariable = "SPILLWAY_SIMULATED_MEMORY";

struct MemorySize {
  std::uint64_t bytes = 0;
  std::string problem;  // one line with the remedy, or nothing
};

// "256MiB", "3GiB", "67108864" (bytes).
MemorySize read_memory_size(const std::string& text);

}  // namespace spillway::simulated
