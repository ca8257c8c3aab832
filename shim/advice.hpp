// Gives the driver policy's advice. A hint: what it refuses is reported to the caller and changes nothing.
#pragma once

#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::shim {

// On the calling thread; microseconds for unpopulated ranges, 25-50 us per 2 MiB where pages exist (accessed_by).
policy::DriverResult give_advice(policy::DeviceIndex device, policy::Address address, policy::Bytes bytes,
                                 policy::Advice advice);

// While one lives, this thread's calls are those of a relaxed capture: allowed beside any capture of the program's.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = 0;
  bool changed_ = false;
};

}  // namespace spillway::shim
