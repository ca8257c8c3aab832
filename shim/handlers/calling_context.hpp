// Where the calling thread stands: its device, context and capture state, by the real driver.
#pragma once

#include <optional>

#include "policy/units.hpp"
#include "shim/cuda_driver.hpp"

namespace spillway::shim {

// Nothing without a current context: the program's call is forwarded then and gets the driver's own code.
std::optional<policy::DeviceIndex> current_device();
CUcontext current_context();
// The device of a stream; nothing for the default streams, which are where the thread is, and for no stream.
std::optional<policy::DeviceIndex> device_of_stream(CUstream stream);

// While one lives, the context is current; nothing is done if it is already.
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  bool pushed_;
};

}  // namespace spillway::shim
