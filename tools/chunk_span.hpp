// The chunks [first, end) of a followed allocation that a range of its bytes lies in. The range may be anything.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tools/run_follower.hpp"

namespace spillway::tools {

struct ChunkSpan {
  std::uint64_t first;
  std::uint64_t end;
  ChunkSpan(const FollowedAllocation& allocation, std::uint64_t begin_byte, std::uint64_t end_byte)
      : first(begin_byte / policy::kChunk.count()),
        end(std::min<std::uint64_t>(
            end_byte / policy::kChunk.count() + (end_byte % policy::kChunk.count() != 0 ? 1 : 0),
            allocation.chunks.size())) {}
};

// Where a range ends, in a file that may lie.
inline std::uint64_t end_of(policy::Bytes offset, policy::Bytes bytes) {
  const std::uint64_t end = offset.count() + bytes.count();
  return end < offset.count() ? ~std::uint64_t{0} : end;
}

}  // namespace spillway::tools
