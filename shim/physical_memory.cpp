#include "shim/physical_memory.hpp"

namespace spillway::shim {

void PhysicalMemory::created(CUmemGenericAllocationHandle handle, policy::Address registered) {
  const std::unique_lock lock(mutex_);
  memories_[handle] = {registered, 1};
}

void PhysicalMemory::retained(CUmemGenericAllocationHandle handle) {
  const std::unique_lock lock(mutex_);
  if (const auto memory = memories_.find(handle); memory != memories_.end()) ++memory->second.references;
}

void PhysicalMemory::mapped(CUdeviceptr address, std::size_t bytes, CUmemGenericAllocationHandle handle) {
  const std::unique_lock lock(mutex_);
  const auto memory = memories_.find(handle);
  if (memory == memories_.end()) return;  // imported: not ours to count
  ++memory->second.references;
  mappings_[address] = {bytes, handle};
}

std::optional<policy::Address> PhysicalMemory::drop(CUmemGenericAllocationHandle handle) {
  const auto memory = memories_.find(handle);
  if (memory == memories_.end() || --memory->second.references > 0) return std::nullopt;
  const policy::Address registered = memory->second.registered;
  memories_.erase(memory);
  return registered;
}

std::optional<policy::Address> PhysicalMemory::released(CUmemGenericAllocationHandle handle) {
  const std::unique_lock lock(mutex_);
  return drop(handle);
}

std::vector<policy::Address> PhysicalMemory::unmapped(CUdeviceptr address, std::size_t bytes) {
  const std::unique_lock lock(mutex_);
  std::vector<policy::Address> gone;
  // One unmap may end several mappings, whole ones only (the driver refuses a part of one).
  for (auto mapping = mappings_.lower_bound(address); mapping != mappings_.end() && mapping->first < address + bytes;) {
    if (const auto registered = drop(mapping->second.handle)) gone.push_back(*registered);
    mapping = mappings_.erase(mapping);
  }
  return gone;
}

PhysicalMemory& physical_memory() {
  static PhysicalMemory* const memory = new PhysicalMemory;
  return *memory;
}

}  // namespace spillway::shim
