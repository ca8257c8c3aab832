// Which events of a file can have happened. A trace may be damaged or made up with checksums that are right; what no
// driver can have said is left out before books are kept by it, so that sums do not wrap and memory stays bounded.
//
// Events lost by the recorder make what follows impossible as well (a settled allocation that was never requested): the
// engine ignores that too. Addresses may overlap: a free is told after the driver gave the address out again.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// A shape with this bit is a graph's own number; no program has as many shapes or graphs.
inline constexpr std::uint32_t kGraphShapeBit = std::uint32_t{1} << 31U;
// Memory that lives at a time on all devices and beside them: 8 TiB, and so four million chunks.
inline constexpr Bytes kMostMemory = Bytes(std::uint64_t{1} << 43);

class PossibleEvents {
 public:
  // Told of every event, in order.
  [[nodiscard]] bool possible(const Event& event);
  [[nodiscard]] std::uint64_t impossible() const { return impossible_; }

 private:
  struct Known {
    enum class Life : std::uint8_t { requested, live, dying, over } life = Life::requested;
    Bytes bytes;
  };
  struct Judge;

  std::unordered_map<AllocationId, Known> allocations_;
  Bytes memory_;    // live
  Bytes reserved_;  // beside allocations
  std::uint64_t impossible_ = 0;
};

}  // namespace spillway::policy
