// The implementations behind the exported entry points, declared from entry_points.def: one overload per ABI.
//
// Each runs with the world's lock held (exports.cpp takes it) and returns the CUresult the program gets.
#pragma once

#include "tools/simulated_device/entry_points.hpp"

namespace spillway::simulated::driver {

#define SPILLWAY_DECLARE_standard(implementation, parameters) CUresult implementation parameters;
#define SPILLWAY_DECLARE_per_thread(implementation, parameters)
#define SPILLWAY_DECLARE_narrow(implementation, parameters)
#define ENTRY(name, version, symbol, kind, implementation, parameters, arguments) \
  SPILLWAY_DECLARE_##kind(implementation, parameters)
#include "tools/simulated_device/entry_points.def"
#undef ENTRY

}  // namespace spillway::simulated::driver
