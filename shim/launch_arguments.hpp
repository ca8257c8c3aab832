// Reads the pointers out of a launch's arguments, only within the sizes that the driver states for the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/address_table.hpp"
#include "shim/function_table.hpp"
#include "shim/launch_record.hpp"

namespace spillway::shim {

struct PointersFound {
  std::size_t count = 0;
  std::uint8_t flags = 0;  // kTouchesCut, kArgumentsUnknown
};

// Writes a Touch for each argument word that lies inside a live allocation to `out`, `room` at most.
// `kernel_parameters` and `extra` are those of cuLaunchKernel; either may be null. No lock, heap or driver call.
PointersFound read_pointers(const FunctionRecord& function, const AddressTable& addresses,
                            const void* const* kernel_parameters, const void* const* extra, Touch* out,
                            std::size_t room);

}  // namespace spillway::shim
