#include "policy/allocation_map.hpp"

namespace spillway::policy {

Allocation* AllocationMap::request(const AllocationRequested& event) {
  Allocation fresh;
  fresh.id = event.allocation;
  fresh.device = event.device;
  fresh.kind = event.kind;
  fresh.caller = event.caller;
  fresh.bytes = event.bytes;
  auto [entry, inserted] = allocations_.emplace(event.allocation, fresh);
  return inserted ? &entry->second : nullptr;
}

bool AllocationMap::settle(const AllocationSettled& event) {
  Allocation* allocation = find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::requested) return false;
  allocation->address = event.address;
  allocation->bytes = event.bytes;
  allocation->backing = event.backing;
  allocation->life = AllocationLife::live;
  if (event.address) {
    by_address_[event.address.value] = event.allocation;
    ++epoch_;
  }
  return true;
}

void AllocationMap::map(Allocation& allocation, Address address) {
  forget_address(allocation);
  allocation.address = address;
  if (address) by_address_[address.value] = allocation.id;
  ++epoch_;
}

void AllocationMap::forget_address(const Allocation& allocation) {
  // A new allocation may have taken the address already (a free that the driver settled before we heard of it).
  const auto place = by_address_.find(allocation.address.value);
  if (place != by_address_.end() && place->second == allocation.id) by_address_.erase(place);
}

void AllocationMap::remove(AllocationId id) {
  const auto entry = allocations_.find(id);
  if (entry == allocations_.end()) return;
  forget_address(entry->second);
  allocations_.erase(entry);
  ++epoch_;
}

Allocation* AllocationMap::find(AllocationId id) {
  const auto entry = allocations_.find(id);
  return entry == allocations_.end() ? nullptr : &entry->second;
}

const Allocation* AllocationMap::find(AllocationId id) const {
  const auto entry = allocations_.find(id);
  return entry == allocations_.end() ? nullptr : &entry->second;
}

Allocation* AllocationMap::at(Address address) {
  auto place = by_address_.upper_bound(address.value);
  if (place == by_address_.begin()) return nullptr;
  --place;
  Allocation* allocation = find(place->second);
  if (allocation == nullptr || address.value - allocation->address.value >= allocation->bytes.count()) return nullptr;
  return allocation;
}

}  // namespace spillway::policy
