// How much host memory may still be filled: the least of what the kernel calls available and what each memory control
// group above this process leaves (version 1 and 2). Reads files; some 50 us. Where /proc cannot be read, as in some
// sandboxes or without a file descriptor left, what the kernel says through sysinfo(2), which leaves out the page
// cache, and the limit of the outermost group in sight.
#pragma once

#include <string>

#include "policy/units.hpp"

namespace spillway::shim {

struct HostMemory {
  policy::Bytes available;
  std::string binding_limit;  // "free memory" or the control group's file, for a message
  int proc_error = 0;         // errno, where /proc could not be read
};

// `root` is "/" but in tests.
HostMemory read_host_memory(const std::string& root = "/");

}  // namespace spillway::shim
