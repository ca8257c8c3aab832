// How far a launch reaches from a pointer it is given. The driver never says; the next pointer into the same allocation
// is a guess that fails where a caching allocator has cut the memory differently in another part of the iteration.
//
// Kernels that stream (element by element) do the same number of bytes in each thread. So the least room that any
// launch of such a function had from a pointer to the end of its allocation, over its threads, bounds the bytes of one
// thread, and is exact as soon as one tensor filled its allocation. The order of the pointers tells operands of other
// element sizes apart. What other kernels (matrix products, attention) do with a pointer, they do with what a streaming
// kernel has last made or read there: SpanMap keeps the extent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "policy/units.hpp"

namespace spillway::policy {

class Reach {
 public:
  // Above this it is no streaming kernel: four vectors of 16 bytes, twice.
  static constexpr std::uint64_t kMostBytesPerThread = 128;

  // A launch with `threads` in all had `room` bytes from its pointer number `position` to the end of the allocation.
  void seen(FunctionId function, std::size_t position, std::uint64_t threads, Bytes room);
  // Bytes that such a launch reaches; zero if nothing is known.
  [[nodiscard]] Bytes of(FunctionId function, std::size_t position, std::uint64_t threads) const;

 private:
  static std::uint64_t key(FunctionId function, std::size_t position) {
    return std::uint64_t{function.value} << 16 | (position & 0xFFFF);
  }
  std::unordered_map<std::uint64_t, std::uint64_t> bytes_per_thread_;  // an entry for each pointer of a function
};

}  // namespace spillway::policy
