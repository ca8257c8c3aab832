// The driver side of migration: one context of ours per device with small limits, shared by the device's lanes (a
// context costs hundreds of MiB of device memory, and the program's launches wait for none of its own), and per lane a
// stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "policy/event.hpp"
#include "policy/units.hpp"
#include "shim/cuda_driver.hpp"

namespace spillway::shim {

// What a context took, given how much less was free after it was made than before: that counts what other processes
// took at the same moment, and a budget must not be charged for theirs.
policy::Bytes memory_of_context(policy::Bytes gone);

class MigrationContext {
 public:
  // What is free on the device now, by the calling thread's current context, if that is one of this device. Before the
  // context is made: what it takes is the difference. The first word counts. Any thread.
  void note_free(policy::DeviceIndex device);
  // Makes the context, once, and current on the calling thread. `tried_now` says that this call made it or was refused,
  // and `took` how much device memory went with it (0 if unknown). Any thread; blocks while another makes it.
  struct Made {
    policy::DriverResult result;
    bool tried_now = false;
    policy::Bytes took;
  };
  Made enter(policy::DeviceIndex device);

  [[nodiscard]] CUdevice device() const { return device_; }

 private:
  policy::DriverResult make(policy::DeviceIndex device);

  std::once_flag once_;
  policy::DriverResult made_;
  CUcontext context_ = nullptr;
  CUdevice device_ = 0;
  policy::Bytes took_;
  std::atomic<std::size_t> free_before_{0};
};

// A stream in the context that is current on this thread. Owned and used by one thread.
class MigrationStream {
 public:
  policy::DriverResult make();
  // Moves pages and returns when they are there.
  policy::DriverResult prefetch(CUdevice device, policy::Address address, policy::Bytes bytes, policy::Placement to);
  void end();  // a lane leaves its own to the process's end

 private:
  CUstream stream_ = nullptr;
};

// Moves pages by the context that is current on the calling thread: the program's, where there is none of ours. Its
// launches wait meanwhile.
policy::DriverResult prefetch_from_here(policy::DeviceIndex device, policy::Address address, policy::Bytes bytes,
                                        policy::Placement to);

}  // namespace spillway::shim
