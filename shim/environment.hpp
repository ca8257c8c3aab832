// The only place that reads the environment.
#pragma once

namespace spillway::shim {

// The value, or null if unset. Never in a setuid process (secure_getenv).
const char* read_environment(const char* name);

}  // namespace spillway::shim
