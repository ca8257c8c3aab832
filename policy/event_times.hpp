// Kernel times from the driver's events, where there is no profiler to ask: one before a launch and one after it, in
// its stream.
//
// What lies between them is the kernel, what the device takes to go from one to the next, a wait for the room that
// other streams' kernels have, and, where the stream had nothing else to do, the time until the launch had reached the
// device. So the number is never less than the kernel's time and often a few microseconds more; whoever uses times
// takes the shortest of a kind. One that may be wrong by much is left out: how much of it can be the launch's is known
// from when the call returned.
#pragma once

#include <span>
#include <vector>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

struct EventTime {
  LaunchNumber launch;
  Nanoseconds called;    // by our clock: just before the first event was recorded
  Nanoseconds returned;  // by our clock: the launch's call had returned
  Nanoseconds began;     // by the device's clock, from any zero: the first event was reached
  Nanoseconds took;      // until the second one
};

// `seen` by one device's clock. In order of launch.
std::vector<KernelTimed> times_by_events(std::span<const EventTime> seen);

}  // namespace spillway::policy
