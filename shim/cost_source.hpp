// What this machine costs, as `spillway probe` left it in the user's cache folder. Read once, at the start.
#pragma once

#include <cstdint>
#include <optional>

#include "policy/cost_table.hpp"

namespace spillway::shim {

// Of the first of the process's devices that has a file; the whole process goes by it. Nothing if none has. A file that
// is bad, or of another device or driver, is said in one line and left alone.
std::optional<policy::CostTable> probed_costs(std::uint32_t device_count);

}  // namespace spillway::shim
