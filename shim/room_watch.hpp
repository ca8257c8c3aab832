// Why room in HBM that policy counts on may not be there: memory on its way back to the driver stays where it is until
// the driver has it, and cannot be moved meanwhile; and a move that was to make room may be taken back.
//
// Guarded by the session's lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

#include "policy/units.hpp"

namespace spillway::shim {

class RoomWatch {
 public:
  // Spilled memory of this device is being freed; it is gone, or the driver refused.
  void free_begins(policy::DeviceIndex device) { ++devices_[device.value].frees; }
  void free_ends(policy::DeviceIndex device) {
    --devices_[device.value].frees;
    freed_.notify_all();
  }
  // Waits until no spilled memory of this device is being freed. False if `limit` passed.
  bool wait_for_frees(std::unique_lock<std::mutex>& lock, policy::DeviceIndex device, std::chrono::milliseconds limit) {
    const Device& watched = devices_[device.value];
    return freed_.wait_for(lock, limit, [&] { return watched.frees == 0; });
  }
  [[nodiscard]] bool frees_under_way(policy::DeviceIndex device) { return devices_[device.value].frees != 0; }

  // Spilled memory was promised and is not settled yet: its place is taken, and no total shows it.
  void promised(policy::DeviceIndex device) { ++devices_[device.value].promised; }
  void settled(policy::DeviceIndex device) { --devices_[device.value].promised; }
  [[nodiscard]] bool promises_open(policy::DeviceIndex device) { return devices_[device.value].promised != 0; }

  // A move that somebody waits for was taken back, as its memory is being freed. One that the driver refuses does not
  // count: a failure of ours is not made the program's.
  void missed(policy::DeviceIndex device) { ++devices_[device.value].missed; }
  [[nodiscard]] std::uint64_t misses(policy::DeviceIndex device) { return devices_[device.value].missed; }

 private:
  struct Device {
    std::uint32_t frees = 0;
    std::uint32_t promised = 0;
    std::uint64_t missed = 0;
  };
  std::map<std::uint32_t, Device> devices_;  // what it holds does not move
  std::condition_variable freed_;
};

}  // namespace spillway::shim
