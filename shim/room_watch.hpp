// Why room in HBM that policy counts on may not be there: memory on its way back to the driver stays where it is until
// the driver has it, and cannot be moved meanwhile; and a move that was to make room may be taken back. And what our
// own context takes is known only if nobody else takes or gives memory while it is made.
//
// Guarded by the session's lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "policy/units.hpp"

namespace spillway::shim {

class RoomWatch {
 public:
  // A call that takes or gives memory of this device, from before the driver hears of it until its answer is counted.
  // Waits, for `limit` at most, while what our context takes is being measured.
  void call_begins(std::unique_lock<std::mutex>& lock, policy::DeviceIndex device, std::chrono::milliseconds limit) {
    Device& watched = devices_[device.value];
    changed_.wait_for(lock, limit, [&] { return watched.measuring == 0; });
    ++watched.calls;
  }
  void call_begins_at_once(policy::DeviceIndex device) { ++devices_[device.value].calls; }
  void call_ends(policy::DeviceIndex device) {
    --devices_[device.value].calls;
    changed_.notify_all();
  }
  // Waits, for `limit` at most, until no such call is under way.
  void measuring_begins(std::unique_lock<std::mutex>& lock, policy::DeviceIndex device,
                        std::chrono::milliseconds limit) {
    Device& watched = devices_[device.value];
    ++watched.measuring;
    changed_.wait_for(lock, limit, [&] { return watched.calls == 0; });
  }
  void measuring_ends(policy::DeviceIndex device) {
    --devices_[device.value].measuring;
    changed_.notify_all();
  }

  // A thread of the program, or of policy, calls the driver on this memory; a free waits for its end, for `limit` at
  // most.
  void use_begins(policy::AllocationId allocation) { in_use_.insert(allocation); }
  void use_ends(policy::AllocationId allocation) {
    in_use_.erase(in_use_.find(allocation));
    changed_.notify_all();
  }
  void wait_for_use(std::unique_lock<std::mutex>& lock, policy::AllocationId allocation,
                    std::chrono::milliseconds limit) {
    changed_.wait_for(lock, limit, [&] { return !in_use_.contains(allocation); });
  }

  // Spilled memory of this device is being freed; it is gone, or the driver refused.
  void free_begins(policy::DeviceIndex device) { ++devices_[device.value].frees; }
  void free_ends(policy::DeviceIndex device) {
    --devices_[device.value].frees;
    changed_.notify_all();
  }
  // Waits until no spilled memory of this device is being freed. False if `limit` passed.
  bool wait_for_frees(std::unique_lock<std::mutex>& lock, policy::DeviceIndex device, std::chrono::milliseconds limit) {
    const Device& watched = devices_[device.value];
    return changed_.wait_for(lock, limit, [&] { return watched.frees == 0; });
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
    std::uint32_t calls = 0;
    std::uint32_t measuring = 0;
    std::uint32_t frees = 0;
    std::uint32_t promised = 0;
    std::uint64_t missed = 0;
  };
  std::map<std::uint32_t, Device> devices_;  // what it holds does not move
  std::multiset<policy::AllocationId> in_use_;
  std::condition_variable changed_;
};

}  // namespace spillway::shim
