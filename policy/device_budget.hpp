// How much of a device this process may fill. A function of the settings and of what is said of the device, so that the
// engine and whoever reads a trace without an end get the same answer.
#pragma once

#include "policy/event.hpp"
#include "policy/settings.hpp"

namespace spillway::policy {

// What a run gets without a budget: what was free when the device was seen, less a reserve.
[[nodiscard]] Bytes free_less_reserve(const DeviceSeen& device);

// What is asked for, and no more than was free; without a setting, free_less_reserve. Bounds nothing in mode off.
[[nodiscard]] Bytes device_budget(const Settings& settings, const DeviceSeen& device);

}  // namespace spillway::policy
