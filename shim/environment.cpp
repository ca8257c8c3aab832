#include "shim/environment.hpp"

#include <cstdlib>

namespace spillway::shim {

const char* read_environment(const char* name) { return secure_getenv(name); }

}  // namespace spillway::shim
