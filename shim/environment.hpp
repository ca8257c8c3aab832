// The only place that reads the environment.
#pragma once

#include <string_view>
#include <vector>

namespace spillway::shim {

// The value, or null if unset. Never in a setuid process (secure_getenv).
const char* read_environment(const char* name);

// Of all variables, as they are now; none in a setuid process.
std::vector<std::string_view> environment_names();

}  // namespace spillway::shim
