#include <iterator>

#include "tools/simulated_device/memory.hpp"

namespace spillway::simulated {

void AddressSpace::add(std::uint64_t address, std::uint64_t bytes) { give_back(address, bytes); }

std::optional<std::uint64_t> AddressSpace::take(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t within) {
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    std::uint64_t start = (hole->first + alignment - 1) / alignment * alignment;
    if (within > 0 && start / within != (start + bytes - 1) / within) start = (start / within + 1) * within;
    if (start + bytes <= hole->first + hole->second && take_at(start, bytes)) return start;
  }
  return std::nullopt;
}

bool AddressSpace::take_at(std::uint64_t address, std::uint64_t bytes) {
  auto hole = free_.upper_bound(address);
  if (hole == free_.begin()) return false;
  --hole;
  const std::uint64_t start = hole->first;
  const std::uint64_t end = hole->first + hole->second;
  if (address + bytes > end) return false;
  free_.erase(hole);
  if (address > start) free_[start] = address - start;
  if (address + bytes < end) free_[address + bytes] = end - address - bytes;
  return true;
}

void AddressSpace::give_back(std::uint64_t address, std::uint64_t bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && address + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free_[address] = bytes;
}

}  // namespace spillway::simulated
