// Memory that the program asked for as plain device memory and that is managed by our choice: to the program it is
// device memory.
#pragma once

#include <optional>

#include "shim/cuda_driver.hpp"
#include "shim/session.hpp"

namespace spillway::shim {

inline std::optional<Registered> spilled_at(CUdeviceptr address) {
  Session* session = Session::get();
  if (session == nullptr) return std::nullopt;
  const auto found = session->registered({address});
  return found && found->spilled() ? found : std::nullopt;
}

// A call that is for managed memory alone: `call` makes the program's call with the address it is given. What the
// program takes as device memory is kept from the driver, which has its say on the other arguments and then gives the
// code that it gives for device memory.
template <class Call>
CUresult for_managed_memory_only(CUdeviceptr address, const Call& call) {
  if (!spilled_at(address)) return call(address);
  const CUresult result = call(CUdeviceptr{0});
  return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
}

}  // namespace spillway::shim
