// The chunks of an allocation that a stretch of it lies in.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/units.hpp"

namespace spillway::policy {

// `visit(chunk, part)`: each in order, with the bytes of it.
template <class Visit>
void each_chunk(Bytes offset, Bytes bytes, const Visit& visit) {
  const std::uint64_t end = offset.count() + bytes.count();
  for (std::uint64_t at = offset.count(); at < end;) {
    const std::uint64_t chunk = at / kChunk.count();
    const std::uint64_t stop = std::min(end, (chunk + 1) * kChunk.count());
    visit(static_cast<std::uint32_t>(chunk), Bytes(stop - at));
    at = stop;
  }
}

}  // namespace spillway::policy
