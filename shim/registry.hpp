// The program's live allocations as the driver knows them: what is at an address, and which id policy calls it by.
// Guarded by the session's lock; the launch path has a lock-free table of its own (address_table).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::shim {

struct Registered {
  policy::AllocationId id;
  policy::DeviceIndex device;
  policy::Address address;
  policy::Bytes bytes;
  policy::AllocationKind kind = policy::AllocationKind::linear;
  policy::Backing backing = policy::Backing::device;
  const void* context = nullptr;  // CUcontext it was made in
  bool freeing = false;
  policy::Address mapped;  // of a map-style handle: where all of it is seen
  // Managed by our choice, not the program's: it asked for plain device memory and shall see that.
  [[nodiscard]] bool spilled() const {
    return backing == policy::Backing::managed && kind != policy::AllocationKind::program_managed;
  }
};

class Registry {
 public:
  void insert(const Registered& allocation);
  void remove(policy::AllocationId id);
  Registered* find(policy::AllocationId id);
  // The allocation that holds this address / that begins there.
  Registered* holding(policy::Address address);
  Registered* beginning(policy::Address address);
  [[nodiscard]] std::vector<policy::AllocationId> made_in(const void* context) const;

 private:
  // Two may have one address: what the driver has freed and we have not heard of yet, and what it gave there since.
  std::map<std::uint64_t, policy::AllocationId> by_address_;  // the younger
  std::unordered_map<policy::AllocationId, Registered> allocations_;
};

}  // namespace spillway::shim
