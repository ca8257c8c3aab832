// The live allocations of the run, by id and by address. Policy's own bookkeeping: one writer, no lock.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "policy/class_share.hpp"
#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/plain_memory.hpp"
#include "policy/rule_matcher.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

enum class AllocationLife : std::uint8_t { requested, live, dying };

struct Allocation {
  AllocationId id;
  DeviceIndex device;
  AllocationKind kind = AllocationKind::linear;
  CallerId caller;
  Bytes bytes;  // as requested until settled, then as the driver gave it
  Address address;
  Backing backing = Backing::device;
  AllocationLife life = AllocationLife::requested;
  Bytes planned_on_device;     // leading bytes to populate in HBM once settled
  Bytes promised_on_device;    // of them, held against the window until then
  bool raw = false;            // pages come by faults (the baselines): no AccessedBy, no population
  Cause cause;                 // of its backing
  ClassShare said;             // what decisions say it holds
  RuleSet rules;               // of the policy file, which its size, order, caller and device allow
  const Rule* rule = nullptr;  // the one that decided when it was asked for; none
  // Its pages are ours to place.
  [[nodiscard]] bool managed() const {
    return backing == Backing::managed && kind != AllocationKind::program_managed &&
           kind != AllocationKind::stretchable;
  }
  // Host memory under a map-style handle: mapped, and there for good.
  [[nodiscard]] bool on_host_for_good() const {
    return backing == Backing::managed && kind == AllocationKind::stretchable;
  }
  [[nodiscard]] bool counted() const { return policy::counted(kind); }
};

class AllocationMap {
 public:
  // nullptr if the id is known already (an impossible event).
  Allocation* request(const AllocationRequested& event);
  // Enters the address; false if the id is unknown or not in its first state.
  bool settle(const AllocationSettled& event);
  // Physical memory is seen elsewhere now, or nowhere (no address).
  void map(Allocation& allocation, Address address);
  void remove(AllocationId id);

  [[nodiscard]] Allocation* find(AllocationId id);
  [[nodiscard]] const Allocation* find(AllocationId id) const;
  // The live allocation that holds `address`; nullptr if none does.
  [[nodiscard]] Allocation* at(Address address);

  // Changes whenever an answer of `at` may have changed: what was resolved under an older epoch must be resolved again.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const std::unordered_map<AllocationId, Allocation>& all() const { return allocations_; }

 private:
  void forget_address(const Allocation& allocation);

  std::unordered_map<AllocationId, Allocation> allocations_;
  std::map<std::uint64_t, AllocationId> by_address_;
  std::uint64_t epoch_ = 1;
};

}  // namespace spillway::policy
