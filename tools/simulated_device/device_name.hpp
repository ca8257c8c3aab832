// How the names of simulated devices begin: by it a trace is known to come from one.
#pragma once

namespace spillway::simulated {

inline constexpr const char* kDeviceName = "Spillway simulated device";

}  // namespace spillway::simulated
