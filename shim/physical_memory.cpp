#include "shim/physical_memory.hpp"

#include <iterator>

namespace spillway::shim {

void PhysicalMemory::created(CUmemGenericAllocationHandle handle, const PhysicalHandle& memory) {
  const std::unique_lock lock(mutex_);
  memories_[handle] = {memory, 1};
}

void PhysicalMemory::retained(CUmemGenericAllocationHandle handle) {
  const std::unique_lock lock(mutex_);
  if (const auto memory = memories_.find(handle); memory != memories_.end()) ++memory->second.references;
}

std::optional<policy::Address> PhysicalMemory::mapped(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                                                      CUmemGenericAllocationHandle handle) {
  const std::unique_lock lock(mutex_);
  const auto memory = memories_.find(handle);
  if (memory == memories_.end()) return std::nullopt;  // imported: not ours to count
  ++memory->second.references;
  const bool whole = offset == 0 && bytes == memory->second.handle.bytes;
  mappings_[address] = {bytes, handle, whole};
  return whole ? std::optional(memory->second.handle.registered) : std::nullopt;
}

std::optional<policy::Address> PhysicalMemory::drop(CUmemGenericAllocationHandle handle) {
  const auto memory = memories_.find(handle);
  if (memory == memories_.end() || --memory->second.references > 0) return std::nullopt;
  const policy::Address registered = memory->second.handle.registered;
  memories_.erase(memory);
  return registered;
}

std::optional<policy::Address> PhysicalMemory::released(CUmemGenericAllocationHandle handle) {
  const std::unique_lock lock(mutex_);
  return drop(handle);
}

std::vector<EndedMapping> PhysicalMemory::unmapped(CUdeviceptr address, std::size_t bytes) {
  const std::unique_lock lock(mutex_);
  std::vector<EndedMapping> ended;
  // One unmap may end several mappings, whole ones only (the driver refuses a part of one).
  for (auto mapping = mappings_.lower_bound(address); mapping != mappings_.end() && mapping->first < address + bytes;) {
    const auto memory = memories_.find(mapping->second.handle);
    if (memory != memories_.end()) {
      EndedMapping end{memory->second.handle.registered, {mapping->first}, mapping->second.whole, false};
      end.gone = drop(mapping->second.handle).has_value();
      ended.push_back(end);
    }
    mapping = mappings_.erase(mapping);
  }
  return ended;
}

std::optional<CUmemAllocationProp> PhysicalMemory::asked(CUmemGenericAllocationHandle handle) {
  const std::unique_lock lock(mutex_);
  const auto memory = memories_.find(handle);
  return memory == memories_.end() ? std::nullopt : memory->second.handle.asked;
}

std::optional<CUmemAllocationProp> PhysicalMemory::asked_at(CUdeviceptr address) {
  const std::unique_lock lock(mutex_);
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return std::nullopt;
  mapping = std::prev(mapping);
  if (address - mapping->first >= mapping->second.bytes) return std::nullopt;
  const auto memory = memories_.find(mapping->second.handle);
  return memory == memories_.end() ? std::nullopt : memory->second.handle.asked;
}

PhysicalMemory& physical_memory() {
  static PhysicalMemory* const memory = new PhysicalMemory;
  return *memory;
}

}  // namespace spillway::shim
