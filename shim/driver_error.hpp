// A driver's code as a person reads it.
#pragma once

#include <string>

#include "policy/event.hpp"

namespace spillway::shim {

std::string error_name(policy::DriverResult result);  // "CUDA_ERROR_INVALID_VALUE"

}  // namespace spillway::shim
