#include "tools/simulated_device/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

// Address space for device memory, and as much for managed. Two ranges of 1 TiB do not fit beside a thread sanitizer.
constexpr std::uint64_t kRange = std::uint64_t{1} << 39;
constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;  // below this, allocations share 2 MiB blocks
constexpr std::uint64_t kSmallAlignment = 512;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

std::uint64_t reserve(std::uint64_t bytes) {
  void* got = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(got);
}

bool populate(std::uint64_t address, std::uint64_t bytes) {
  return mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) == 0;
}

// Fresh, inaccessible addresses again: a late access faults, and the next allocation here reads zeros.
void depopulate(std::uint64_t address, std::uint64_t bytes) {
  (void)mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device:
      return "device";
    case MemoryKind::pool:
      return "pool";
    case MemoryKind::managed:
      return "managed";
    case MemoryKind::pinned:
      return "pinned";
    case MemoryKind::registered:
      return "registered";
    case MemoryKind::reservation:
      return "reservation";
    case MemoryKind::mapping:
      return "mapping";
    case MemoryKind::imported:
      return "imported";
    case MemoryKind::array:
      return "array";
  }
  return "unknown";
}

bool MemoryMap::reserve_ranges() {
  base_ = reserve(kRange);
  managed_base_ = reserve(kRange);
  if (base_ == 0 || managed_base_ == 0) return false;
  const auto first = round_up(base_, kChunkBytes);
  const auto first_managed = round_up(managed_base_, kChunkBytes);
  device_space_.add(first, kRange - kChunkBytes);
  managed_space_.add(first_managed, kRange - kChunkBytes);
  small_.resize(static_cast<std::size_t>(world().settings.devices));
  return true;
}

bool MemoryMap::is_device_address(std::uint64_t address) const {
  return (address >= base_ && address < base_ + kRange) ||
         (address >= managed_base_ && address < managed_base_ + kRange);
}

bool charge_device(int device, std::uint64_t bytes) {
  World& w = world();
  Device& card = w.devices[static_cast<std::size_t>(device)];
  if (card.plain_bytes + bytes > w.settings.memory_bytes || !make_room(device, bytes)) return false;
  card.plain_bytes += bytes;
  card.resident_peak = std::max(card.resident_peak, card.plain_bytes + card.managed_bytes);
  return true;
}

void uncharge_device(int device, std::uint64_t bytes) {
  world().devices[static_cast<std::size_t>(device)].plain_bytes -= bytes;
}

std::optional<std::uint64_t> MemoryMap::take_small(std::uint64_t bytes, std::uint64_t& charged, int device) {
  AddressSpace& space = small_[static_cast<std::size_t>(device)];
  // Neighbouring blocks' free pieces are one to the space; an allocation over two would lose a half with either block.
  auto address = space.take(bytes, kSmallAlignment, kChunkBytes);
  if (!address) {
    if (!charge_device(device, kChunkBytes)) return std::nullopt;
    const auto block = device_space_.take(kChunkBytes, kChunkBytes);
    if (!block || !populate(*block, kChunkBytes)) {
      uncharge_device(device, kChunkBytes);
      return std::nullopt;
    }
    space.add(*block, kChunkBytes);
    address = space.take(bytes, kSmallAlignment, kChunkBytes);
  }
  ++small_users_[*address / kChunkBytes * kChunkBytes];
  charged = 0;  // the block is charged, not the piece
  return address;
}

void MemoryMap::give_small(const Allocation& allocation) {
  AddressSpace& space = small_[static_cast<std::size_t>(allocation.device)];
  space.give_back(allocation.address, allocation.reserved);
  const std::uint64_t block = allocation.address / kChunkBytes * kChunkBytes;
  if (--small_users_[block] > 0) return;
  small_users_.erase(block);
  space.take_at(block, kChunkBytes);
  depopulate(block, kChunkBytes);
  device_space_.give_back(block, kChunkBytes);
  uncharge_device(allocation.device, kChunkBytes);
}

CUresult MemoryMap::allocate(MemoryKind kind, std::uint64_t bytes, const Context& context, unsigned flags,
                             Allocation*& out, std::optional<int> device) {
  Allocation made;
  made.bytes = bytes;
  made.kind = kind;
  made.context = &context;
  made.device = device.value_or(context.device);
  made.flags = flags;
  if (bytes > kRange / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  std::optional<std::uint64_t> address;
  if (kind == MemoryKind::pinned) {
    made.reserved = round_up(bytes, 4096);
    void* got = mmap(nullptr, made.reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    address = reinterpret_cast<std::uint64_t>(got);
  } else if (kind == MemoryKind::managed) {
    made.reserved = round_up(bytes, kChunkBytes);
    made.chunks.resize(made.reserved / kChunkBytes);
    address = managed_space_.take(made.reserved, kChunkBytes);
    if (address && !populate(*address, made.reserved)) return CUDA_ERROR_OUT_OF_MEMORY;
  } else if (bytes < kSmall) {
    made.reserved = round_up(bytes, kSmallAlignment);
    address = take_small(made.reserved, made.charged, made.device);
  } else {
    made.reserved = made.charged = round_up(bytes, kChunkBytes);
    if (!charge_device(made.device, made.charged)) return CUDA_ERROR_OUT_OF_MEMORY;
    address = device_space_.take(made.reserved, kChunkBytes);
    if (!address || !populate(*address, made.reserved)) {
      uncharge_device(made.device, made.charged);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  made.address = *address;
  out = &note(std::move(made));
  return CUDA_SUCCESS;
}

Allocation& MemoryMap::note(Allocation allocation) {
  World& w = world();
  allocation.id = w.next_id++;
  ++w.statistics.allocations;
  freed_.erase(allocation.address);
  auto& place = allocation.kind == MemoryKind::reservation ? reservations_ : live_;
  return place.insert_or_assign(allocation.address, std::move(allocation)).first->second;
}

void MemoryMap::release(std::uint64_t address) {
  const auto found = live_.find(address);
  Allocation& allocation = found->second;
  ++world().statistics.frees;
  freed_.insert(address);
  if (allocation.shared_file >= 0) close(allocation.shared_file);
  switch (allocation.kind) {
    case MemoryKind::registered:
    case MemoryKind::mapping:
      break;
    case MemoryKind::pinned:
      munmap(pointer(address), allocation.reserved);
      break;
    case MemoryKind::managed:
      forget_managed(allocation);
      depopulate(address, allocation.reserved);
      managed_space_.give_back(address, allocation.reserved);
      break;
    case MemoryKind::imported:
      depopulate(address, allocation.reserved);
      device_space_.give_back(address, allocation.reserved);
      break;
    default:
      if (allocation.charged == 0) {
        give_small(allocation);
      } else {
        depopulate(address, allocation.reserved);
        device_space_.give_back(address, allocation.reserved);
        uncharge_device(allocation.device, allocation.charged);
      }
  }
  live_.erase(found);
}

Allocation* MemoryMap::exact(std::uint64_t address) {
  const auto found = live_.find(address);
  return found == live_.end() ? nullptr : &found->second;
}

Allocation* MemoryMap::containing(std::uint64_t address) {
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return address < allocation.address + allocation.bytes ? &allocation : nullptr;
}

Allocation* MemoryMap::reservation(std::uint64_t address) {
  auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return address < allocation.address + allocation.bytes ? &allocation : nullptr;
}

void MemoryMap::note_bad_free(std::uint64_t address) {
  world().statistics.bad_frees.push_back({address, freed_.contains(address)});
}

}  // namespace spillway::simulated
