// A tree that breaks every rule once, so that the check can be seen to fail. Comments do not count: getenv("X"), <thread>.
#include <cuda.h>
#include <fstream>
#include <thread>

#include "policy/units.hpp"
#include "settings.hpp"
#include "shim/log.hpp"

/* std::chrono::steady_clock in a comment is no clock. */
inline const char* kText = "getenv(\"X\") in text is no call";
inline auto now() { return std::chrono::steady_clock::now(); }
inline auto home() { return std::getenv("HOME"); }
inline auto worker = std::jthread();
inline auto file = std::fopen("x", "r");
