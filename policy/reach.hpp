// How far a launch reaches from a pointer it is given. The driver never says; the next pointer into the same allocation
// is a guess that fails where a caching allocator has cut the memory differently in another part of the iteration.
//
// Most kernels that stream do the same number of bytes in each thread. So the least room that any launch of a function
// had from a pointer to the end of its allocation, over its threads, bounds the bytes of one thread, and is close as
// soon as one tensor filled its allocation. For kernels with a fixed number of threads the bound is the smallest room
// of all and says little: it never makes a use smaller than the guess.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "policy/units.hpp"

namespace spillway::policy {

class Reach {
 public:
  // A launch with `threads` in all had `room` bytes from its pointer to the end of the allocation.
  void seen(FunctionId function, std::uint16_t argument, std::uint64_t threads, Bytes room);
  // Bytes that such a launch reaches at most; zero if nothing is known.
  [[nodiscard]] Bytes of(FunctionId function, std::uint16_t argument, std::uint64_t threads) const;

 private:
  static std::uint64_t key(FunctionId function, std::uint16_t argument) {
    return std::uint64_t{function.value} << 16 | argument;
  }
  std::unordered_map<std::uint64_t, double> bytes_per_thread_;  // an entry for each pointer argument of a function
};

}  // namespace spillway::policy
