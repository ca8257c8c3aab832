// Times and durations out of a file that may lie: within bounds in which adding and subtracting them is safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "policy/units.hpp"

namespace spillway::tools {

inline constexpr policy::Nanoseconds kLongestTime{std::numeric_limits<std::int64_t>::max() / 4};  // 73 years

// Not negative, and at most kLongestTime.
constexpr policy::Nanoseconds sane(policy::Nanoseconds time) {
  return std::clamp(time, policy::Nanoseconds(0), kLongestTime);
}

// Stays at kLongestTime once there.
inline void add_sane(policy::Nanoseconds& sum, policy::Nanoseconds more) { sum = sane(sum + sane(more)); }

}  // namespace spillway::tools
