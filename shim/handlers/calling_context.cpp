#include "shim/handlers/calling_context.hpp"

#include "shim/driver.hpp"

namespace spillway::shim {

std::optional<policy::DeviceIndex> current_device() {
  CUdevice device = 0;
  if (driver().cuCtxGetDevice == nullptr || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) return std::nullopt;
  return policy::DeviceIndex{static_cast<std::uint32_t>(device)};
}

CUcontext current_context() {
  CUcontext context = nullptr;
  if (driver().cuCtxGetCurrent == nullptr || driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  return context;
}

}  // namespace spillway::shim
