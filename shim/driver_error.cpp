#include "shim/driver_error.hpp"

#include "shim/driver.hpp"

namespace spillway::shim {

std::string error_name(policy::DriverResult result) {
  const char* name = nullptr;
  const auto code = static_cast<CUresult>(result.code);
  if (driver().cuGetErrorName != nullptr && driver().cuGetErrorName(code, &name) == CUDA_SUCCESS && name != nullptr) {
    return name;
  }
  return "CUDA error " + std::to_string(result.code);
}

}  // namespace spillway::shim
