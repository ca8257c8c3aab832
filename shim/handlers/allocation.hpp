// The one way an allocation takes through the hooks: ask policy, call the driver for what policy chose, tell the
// result.
#pragma once

#include <functional>

#include "shim/session.hpp"

namespace spillway::shim {

// What the driver gave.
struct DriverMemory {
  CUresult result = CUDA_SUCCESS;
  policy::Address address;
  policy::Bytes bytes;
};

struct AllocationCalls {
  std::function<DriverMemory()> plain;    // the program's own call
  std::function<DriverMemory()> managed;  // empty: this kind cannot be spilled
};

// The code that the program gets. A managed allocation that the driver refuses for another reason than memory becomes a
// plain one; a plain one that finds the card full (another process, or what cannot be counted) is asked for again,
// which may make it a managed one.
CUresult allocate(Session& session, AllocationRequest request, const AllocationCalls& calls);

// cuMemAllocManaged in place of plain memory, also while the program captures.
DriverMemory allocate_spilled(policy::Bytes bytes);

}  // namespace spillway::shim
