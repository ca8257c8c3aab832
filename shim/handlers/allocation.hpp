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
  // What the driver has against the call, its size apart: asked when policy refuses, as out of memory must not hide
  // that an argument is wrong. May be empty.
  std::function<CUresult()> objection;
};

// The code that the program gets, after which nothing of the call is left to do. A managed allocation that the driver
// refuses for another reason than memory becomes a plain one; a plain one that finds the card full (another process, or
// what cannot be counted) is asked for again, which may make it a managed one.
CUresult allocate(Session& session, AllocationRequest request, const AllocationCalls& calls);

// Why memory is refused that the driver finds nothing wrong with.
void say_refused(const AllocationRequest& request, const AllocationAnswer& answer);

// cuMemAllocManaged in place of plain memory. In the thread's own capture mode: where a capture forbids plain memory
// the driver forbids managed memory with the same code and spoils the capture, as without us; where the program has
// relaxed the mode, as caching allocators do, both work.
DriverMemory allocate_spilled(policy::Bytes bytes);
// While something is being captured: what the driver would say to an allocation in this thread's mode.
CUresult capture_objection(policy::Bytes bytes);

}  // namespace spillway::shim
