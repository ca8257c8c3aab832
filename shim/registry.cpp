#include "shim/registry.hpp"

namespace spillway::shim {

void Registry::insert(const Registered& allocation) {
  by_address_[allocation.address.value] = allocation.id;
  allocations_[allocation.id] = allocation;
}

void Registry::remove(policy::AllocationId id) {
  const auto known = allocations_.find(id);
  if (known == allocations_.end()) return;
  const auto entry = by_address_.find(known->second.address.value);
  if (entry != by_address_.end() && entry->second == id) by_address_.erase(entry);
  allocations_.erase(known);
}

Registered* Registry::find(policy::AllocationId id) {
  const auto known = allocations_.find(id);
  return known == allocations_.end() ? nullptr : &known->second;
}

Registered* Registry::beginning(policy::Address address) {
  const auto entry = by_address_.find(address.value);
  return entry == by_address_.end() ? nullptr : find(entry->second);
}

Registered* Registry::holding(policy::Address address) {
  auto entry = by_address_.upper_bound(address.value);
  if (entry == by_address_.begin()) return nullptr;
  Registered* found = find((--entry)->second);
  return found != nullptr && address.value - found->address.value < found->bytes.count() ? found : nullptr;
}

std::vector<policy::AllocationId> Registry::made_in(const void* context) const {
  std::vector<policy::AllocationId> found;
  for (const auto& [id, allocation] : allocations_) {
    if (allocation.context == context) found.push_back(id);
  }
  return found;
}

}  // namespace spillway::shim
