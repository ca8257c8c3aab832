// Which words are addresses inside a live allocation: the question asked of every argument word of every launch.
//
// Two levels over the 2 MiB pages of 48-bit addresses. Only allocations of 2 MiB and more are held, so at most two of
// them share a page: one that ends in it and one that begins in it. Readers take no lock and never see freed memory:
// leaves and slots are mapped once and reused in place. One writer at a time, under the caller's lock.
// A reader beside a writer sees the allocation or does not; it never gets an address outside both states.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "policy/units.hpp"

namespace spillway::shim {

class AddressTable {
 public:
  struct Found {
    std::uint64_t begin;
    std::uint64_t end;
    policy::AllocationId id;
  };
  enum class Outcome { done, too_small, out_of_range, overlaps, no_memory, unknown };

  constexpr AddressTable() = default;
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;
  ~AddressTable();

  static constexpr std::uint64_t kPageShift = 21;
  static constexpr std::uint64_t kSmallest = std::uint64_t{1} << kPageShift;

  // Writer. [begin, begin + bytes) must not overlap a live allocation.
  Outcome insert(policy::Address begin, policy::Bytes bytes, policy::AllocationId id);
  Outcome remove(policy::Address begin);

  // Reader, lock-free. The allocation that holds `word`, if one does.
  [[nodiscard]] std::optional<Found> find(std::uint64_t word) const;
  // Reader, lock-free; the launch path's form. Most words are no addresses at all: `bounds`, taken once a launch, sorts
  // those out with one comparison. An address costs two loads, or a slot more in a page that an allocation shares.
  struct Bounds {
    std::uint64_t low = 0;   // no allocation ever began below
    std::uint64_t span = 0;  // nor ended above low + span
    [[nodiscard]] bool admit(std::uint64_t word) const { return word - low < span; }
  };
  [[nodiscard]] Bounds bounds() const {
    const std::uint64_t low = low_.load(std::memory_order_acquire);
    const std::uint64_t high = high_.load(std::memory_order_acquire);
    return high > low ? Bounds{low, high - low} : Bounds{};
  }
  [[nodiscard]] bool contains(std::uint64_t word) const {
    const Entry entry = entry_at(word);
    if (entry == 0) return false;
    return (entry & kWhole) != 0 || contains_by_slot(entry, word);
  }

  [[nodiscard]] std::size_t size() const { return live_.load(std::memory_order_relaxed); }

 private:
  // A leaf entry: the slot of the allocation that covers the page's first byte, the slot of the one that begins
  // later in the page (0: none), and whether the first covers the page to its end, so that no slot need be read.
  using Entry = std::uint64_t;
  struct Slot;
  static constexpr std::size_t kRootBits = 13;
  static constexpr std::size_t kLeafBits = 14;
  static constexpr std::uint64_t kAddressEnd = std::uint64_t{1} << 48;
  static constexpr Entry kWhole = Entry{1} << 31;
  struct Leaf {
    std::atomic<Entry> entries[std::size_t{1} << kLeafBits];
  };
  static constexpr std::size_t kSlotsPerBlock = 4096;
  static constexpr std::size_t kSlotBlocks = 1024;

  [[nodiscard]] Entry entry_at(std::uint64_t word) const {
    if (word >= kAddressEnd) return 0;
    const Leaf* leaf = roots_[word >> (kPageShift + kLeafBits)].load(std::memory_order_acquire);
    if (leaf == nullptr) return 0;
    return leaf->entries[(word >> kPageShift) & ((std::uint64_t{1} << kLeafBits) - 1)].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool contains_by_slot(Entry entry, std::uint64_t word) const;
  void widen(std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] std::optional<Found> read_slot(std::uint64_t index, std::uint64_t word) const;
  [[nodiscard]] Slot& slot(std::uint64_t index) const;
  bool make_leaves(std::uint64_t first_page, std::uint64_t last_page);
  [[nodiscard]] bool overlaps(std::uint64_t begin, std::uint64_t end) const;
  std::uint32_t take_slot();
  enum class Change { set, clear };
  void change_pages(std::uint64_t begin, std::uint64_t end, std::uint32_t index, Change change);

  std::atomic<Leaf*> roots_[std::size_t{1} << kRootBits] = {};
  std::atomic<Slot*> blocks_[kSlotBlocks] = {};
  std::atomic<std::uint64_t> low_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> high_{0};
  std::uint32_t next_slot_ = 1;  // 0 means none
  std::uint32_t free_slot_ = 0;  // writer's list of slots to reuse, threaded through Slot::next_free
  std::atomic<std::size_t> live_{0};
};

}  // namespace spillway::shim
