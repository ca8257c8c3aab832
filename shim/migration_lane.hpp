// The driver side of a lane: a context of our own with small limits, a stream in it, and a prefetch. Owned and used by
// one thread.
#pragma once

#include "policy/event.hpp"
#include "policy/units.hpp"
#include "shim/cuda_driver.hpp"

namespace spillway::shim {

class MigrationContext {
 public:
  // Makes the context current on this thread; `took` is the device memory that went with it, 0 if unknown.
  policy::DriverResult make(policy::DeviceIndex device);
  // Moves pages and returns when they are there.
  policy::DriverResult prefetch(policy::Address address, policy::Bytes bytes, policy::Placement to);
  [[nodiscard]] bool made() const { return context_ != nullptr; }
  [[nodiscard]] policy::Bytes took() const { return took_; }

 private:
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdevice device_ = 0;
  policy::Bytes took_;
};

}  // namespace spillway::shim
