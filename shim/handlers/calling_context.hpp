// Where the calling thread stands: its device, context and capture state, by the real driver.
#pragma once

#include <optional>

#include "policy/units.hpp"
#include "shim/cuda_driver.hpp"

namespace spillway::shim {

// Nothing without a current context: the program's call is forwarded then and gets the driver's own code.
std::optional<policy::DeviceIndex> current_device();
CUcontext current_context();

}  // namespace spillway::shim
