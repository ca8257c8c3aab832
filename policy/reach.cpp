#include "policy/reach.hpp"

namespace spillway::policy {

void Reach::seen(FunctionId function, std::uint16_t argument, std::uint64_t threads, Bytes room) {
  if (threads == 0 || room == Bytes()) return;
  const double bound = static_cast<double>(room.count()) / static_cast<double>(threads);
  const auto [entry, fresh] = bytes_per_thread_.try_emplace(key(function, argument), bound);
  if (!fresh && bound < entry->second) entry->second = bound;
}

Bytes Reach::of(FunctionId function, std::uint16_t argument, std::uint64_t threads) const {
  const auto entry = bytes_per_thread_.find(key(function, argument));
  if (entry == bytes_per_thread_.end()) return {};
  return Bytes(static_cast<std::uint64_t>(entry->second * static_cast<double>(threads)));
}

}  // namespace spillway::policy
