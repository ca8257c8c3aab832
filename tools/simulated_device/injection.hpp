// Fault injection: which call of which symbol fails with which code, or is delayed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace spillway::simulated {

struct Injection {
  unsigned entry = 0;      // EntryPoint
  std::uint64_t call = 0;  // counts from 1; 0 is every call
  int code = 0;            // CUresult to return instead of the call; 0: only the delay
  std::chrono::milliseconds delay{0};
};

// "cuMemAlloc_v2:3:2", "cuMemFree_v2:1:delay=200ms", "cuMemPrefetchAsync_v2:*:999"; nothing when it is none of these.
std::optional<Injection> parse_injection(const std::string& text);

}  // namespace spillway::simulated
