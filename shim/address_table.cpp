#include "shim/address_table.hpp"

#include <sys/mman.h>

#include <new>

namespace spillway::shim {

namespace {

constexpr std::uint64_t kPageBytes = AddressTable::kSmallest;
constexpr std::uint64_t kIndexMask = 0x7FFF'FFFF;
constexpr int kLaterShift = 32;

constexpr std::uint64_t covering(std::uint64_t entry) { return entry & kIndexMask; }
constexpr std::uint64_t beginning(std::uint64_t entry) { return (entry >> kLaterShift) & kIndexMask; }

template <class Thing>
Thing* map_zeroed(std::size_t count) {
  void* pages = mmap(nullptr, count * sizeof(Thing), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<Thing*>(pages);
}

}  // namespace

// Type-stable: a slot is reused for another allocation, never unmapped while the table lives. `sequence` is odd while
// the writer changes the fields; acquire loads and release stores keep the fields between its two values.
struct AddressTable::Slot {
  std::atomic<std::uint32_t> sequence;
  std::atomic<std::uint32_t> id;
  std::atomic<std::uint64_t> begin;
  std::atomic<std::uint64_t> end;
  std::uint32_t next_free;  // writer's

  void write(std::uint64_t new_begin, std::uint64_t new_end, std::uint32_t new_id) {
    const std::uint32_t before = sequence.load(std::memory_order_relaxed);
    sequence.store(before + 1, std::memory_order_relaxed);
    begin.store(new_begin, std::memory_order_release);
    end.store(new_end, std::memory_order_release);
    id.store(new_id, std::memory_order_release);
    sequence.store(before + 2, std::memory_order_release);
  }
};

AddressTable::~AddressTable() {
  for (auto& root : roots_) {
    if (Leaf* leaf = root.load()) munmap(leaf, sizeof(Leaf));
  }
  for (auto& block : blocks_) {
    if (Slot* slots = block.load()) munmap(slots, kSlotsPerBlock * sizeof(Slot));
  }
}

AddressTable::Slot& AddressTable::slot(std::uint64_t index) const {
  return blocks_[index / kSlotsPerBlock].load(std::memory_order_acquire)[index % kSlotsPerBlock];
}

std::optional<AddressTable::Found> AddressTable::read_slot(std::uint64_t index, std::uint64_t word) const {
  if (index == 0) return std::nullopt;
  const Slot& at = slot(index);
  const std::uint32_t before = at.sequence.load(std::memory_order_acquire);
  const Found found{at.begin.load(std::memory_order_acquire),
                    at.end.load(std::memory_order_acquire),
                    {at.id.load(std::memory_order_acquire)}};
  // Changed meanwhile: it was removed, so "not there" is a true answer.
  if ((before & 1) != 0 || at.sequence.load(std::memory_order_relaxed) != before) return std::nullopt;
  if (word < found.begin || word >= found.end) return std::nullopt;
  return found;
}

std::optional<AddressTable::Found> AddressTable::find(std::uint64_t word) const {
  const Entry entry = entry_at(word);
  if (entry == 0) return std::nullopt;
  if (const auto found = read_slot(covering(entry), word)) return found;
  return read_slot(beginning(entry), word);
}

bool AddressTable::contains_by_slot(Entry entry, std::uint64_t word) const {
  return read_slot(covering(entry), word).has_value() || read_slot(beginning(entry), word).has_value();
}

void AddressTable::widen(std::uint64_t begin, std::uint64_t end) {
  if (begin < low_.load(std::memory_order_relaxed)) low_.store(begin, std::memory_order_release);
  if (end > high_.load(std::memory_order_relaxed)) high_.store(end, std::memory_order_release);
}

bool AddressTable::make_leaves(std::uint64_t first_page, std::uint64_t last_page) {
  for (std::uint64_t root = first_page >> kLeafBits; root <= last_page >> kLeafBits; ++root) {
    if (roots_[root].load(std::memory_order_relaxed) != nullptr) continue;
    Leaf* leaf = map_zeroed<Leaf>(1);
    if (leaf == nullptr) return false;
    roots_[root].store(leaf, std::memory_order_release);
  }
  return true;
}

bool AddressTable::overlaps(std::uint64_t begin, std::uint64_t end) const {
  for (std::uint64_t page = begin >> kPageShift; page <= (end - 1) >> kPageShift; ++page) {
    const Entry entry = entry_at(page << kPageShift);
    for (const std::uint64_t index : {covering(entry), beginning(entry)}) {
      if (index == 0) continue;
      const Slot& other = slot(index);
      if (other.begin.load(std::memory_order_relaxed) < end && begin < other.end.load(std::memory_order_relaxed)) {
        return true;
      }
    }
  }
  return false;
}

std::uint32_t AddressTable::take_slot() {
  if (free_slot_ != 0) {
    const std::uint32_t index = free_slot_;
    free_slot_ = slot(index).next_free;
    return index;
  }
  const std::size_t block = next_slot_ / kSlotsPerBlock;
  if (block >= kSlotBlocks) return 0;
  if (blocks_[block].load(std::memory_order_relaxed) == nullptr) {
    Slot* slots = map_zeroed<Slot>(kSlotsPerBlock);
    if (slots == nullptr) return 0;
    blocks_[block].store(slots, std::memory_order_release);
  }
  return next_slot_++;
}

void AddressTable::change_pages(std::uint64_t begin, std::uint64_t end, std::uint32_t index, Change change) {
  for (std::uint64_t page = begin >> kPageShift; page <= (end - 1) >> kPageShift; ++page) {
    const std::uint64_t page_begin = page << kPageShift;
    std::atomic<Entry>& entry = roots_[page >> kLeafBits]
                                    .load(std::memory_order_relaxed)
                                    ->entries[page & ((std::uint64_t{1} << kLeafBits) - 1)];
    Entry value = entry.load(std::memory_order_relaxed);
    if (begin > page_begin) {
      value &= ~(kIndexMask << kLaterShift);
      if (change == Change::set) value |= std::uint64_t{index} << kLaterShift;
    } else {
      value &= ~(kIndexMask | kWhole);
      if (change == Change::set) value |= index | (end - page_begin >= kPageBytes ? kWhole : 0);
    }
    entry.store(value, std::memory_order_release);
  }
}

AddressTable::Outcome AddressTable::insert(policy::Address begin, policy::Bytes bytes, policy::AllocationId id) {
  if (bytes.count() < kSmallest) return Outcome::too_small;
  if (begin.value == 0 || begin.value >= kAddressEnd || bytes.count() > kAddressEnd - begin.value) {
    return Outcome::out_of_range;
  }
  const std::uint64_t end = begin.value + bytes.count();
  if (overlaps(begin.value, end)) return Outcome::overlaps;
  if (!make_leaves(begin.value >> kPageShift, (end - 1) >> kPageShift)) return Outcome::no_memory;
  const std::uint32_t index = take_slot();
  if (index == 0) return Outcome::no_memory;
  slot(index).write(begin.value, end, id.value);
  widen(begin.value, end);
  change_pages(begin.value, end, index, Change::set);
  live_.fetch_add(1, std::memory_order_relaxed);
  return Outcome::done;
}

AddressTable::Outcome AddressTable::remove(policy::Address begin) {
  const Entry entry = entry_at(begin.value);
  for (const std::uint64_t candidate : {covering(entry), beginning(entry)}) {
    if (candidate == 0 || slot(candidate).begin.load(std::memory_order_relaxed) != begin.value) continue;
    const auto index = static_cast<std::uint32_t>(candidate);
    // Pages first: once the slot is changed, no page leads to it.
    change_pages(begin.value, slot(index).end.load(std::memory_order_relaxed), index, Change::clear);
    slot(index).write(0, 0, 0);
    slot(index).next_free = free_slot_;
    free_slot_ = index;
    live_.fetch_sub(1, std::memory_order_relaxed);
    return Outcome::done;
  }
  return Outcome::unknown;
}

}  // namespace spillway::shim
