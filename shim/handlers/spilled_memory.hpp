// Memory that the program asked for as plain device memory and that is managed by our choice: to the program it is
// device memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

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

// The same for many addresses at once.
template <class Call>
CUresult for_managed_memory_only(CUdeviceptr* addresses, std::size_t count, const Call& call) {
  const auto is_spilled = [](CUdeviceptr address) { return spilled_at(address).has_value(); };
  if (addresses == nullptr || std::none_of(addresses, addresses + count, is_spilled)) return call(addresses);
  std::vector<CUdeviceptr> kept(addresses, addresses + count);
  std::replace_if(kept.begin(), kept.end(), is_spilled, CUdeviceptr{0});
  const CUresult result = call(kept.data());
  return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
}

}  // namespace spillway::shim
