#include "policy/reach.hpp"

namespace spillway::policy {
namespace {

// Below this the threads of a block that is not full would count.
constexpr std::uint64_t kLeastThreads = std::uint64_t{1} << 16;

}  // namespace

void Reach::seen(FunctionId function, std::size_t position, std::uint64_t threads, Bytes room) {
  if (threads < kLeastThreads || room == Bytes()) return;
  // Whole bytes; a last block that is not full takes away less than an eighth of one.
  const std::uint64_t bound = (room.count() + threads / 8) / threads;
  const auto [entry, fresh] = bytes_per_thread_.try_emplace(key(function, position), bound);
  if (!fresh && bound < entry->second) entry->second = bound;
}

Bytes Reach::of(FunctionId function, std::size_t position, std::uint64_t threads) const {
  const auto entry = bytes_per_thread_.find(key(function, position));
  if (entry == bytes_per_thread_.end() || entry->second > kMostBytesPerThread) return {};
  return Bytes(entry->second * threads);
}

}  // namespace spillway::policy
