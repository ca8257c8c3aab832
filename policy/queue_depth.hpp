// How far a program can be ahead of its device: the driver makes it wait for room in its queue.
#pragma once

#include <cstdint>

namespace spillway::policy {

inline constexpr std::uint64_t kQueueDepth = 1024;  // launches

}  // namespace spillway::policy
