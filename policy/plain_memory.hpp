// What plain device memory takes of the card, which is more than what the program asked for: the driver gives device
// memory in blocks of 2 MiB. Allocations of 1 MiB and more have blocks of their own; smaller ones share them, and a
// shared block is taken as long as one of its allocations lives. Those without an address (arrays) are counted as they
// are while they are small, as the driver does not say which block they share.
//
// Until an allocation is settled, it is counted with the most that it may take.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// Whether it is memory of this process's own that no one else counts.
constexpr bool counted(AllocationKind kind) {
  return kind != AllocationKind::imported && kind != AllocationKind::program_managed;
}

// By which it is counted. A map-style handle has no block of its own: what it shows is where it is mapped.
constexpr Address block_address(AllocationKind kind, Address address) {
  const bool handle = kind == AllocationKind::physical || kind == AllocationKind::stretchable;
  return handle ? Address{} : address;
}

class PlainMemory {
 public:
  // The most that an allocation of this size takes.
  static Bytes most(Bytes bytes);

  void promise(Bytes bytes) { promised_ += most(bytes); }
  void withdraw(Bytes bytes) { promised_ -= most(bytes); }
  void add(Address address, Bytes bytes);
  void remove(Address address, Bytes bytes);

  [[nodiscard]] Bytes live() const { return live_; }
  [[nodiscard]] Bytes taken() const { return live_ + promised_; }

 private:
  Bytes live_;
  Bytes promised_;
  std::unordered_map<std::uint64_t, std::uint32_t> shared_;  // how many small allocations live in a block
};

}  // namespace spillway::policy
