#include "shim/registry.hpp"

namespace spillway::shim {

void Registry::insert(const Registered& allocation) {
  by_address_[allocation.address.value] = allocation;
  addresses_[allocation.id] = allocation.address.value;
}

void Registry::remove(policy::AllocationId id) {
  const auto place = addresses_.find(id);
  if (place == addresses_.end()) return;
  const auto entry = by_address_.find(place->second);
  if (entry != by_address_.end() && entry->second.id == id) by_address_.erase(entry);
  addresses_.erase(place);
}

Registered* Registry::find(policy::AllocationId id) {
  const auto place = addresses_.find(id);
  return place == addresses_.end() ? nullptr : beginning({place->second});
}

Registered* Registry::beginning(policy::Address address) {
  const auto entry = by_address_.find(address.value);
  return entry == by_address_.end() ? nullptr : &entry->second;
}

Registered* Registry::holding(policy::Address address) {
  auto entry = by_address_.upper_bound(address.value);
  if (entry == by_address_.begin()) return nullptr;
  --entry;
  Registered& found = entry->second;
  return address.value - found.address.value < found.bytes.count() ? &found : nullptr;
}

std::vector<policy::AllocationId> Registry::made_in(const void* context) const {
  std::vector<policy::AllocationId> found;
  for (const auto& [address, allocation] : by_address_) {
    if (allocation.context == context) found.push_back(allocation.id);
  }
  return found;
}

}  // namespace spillway::shim
