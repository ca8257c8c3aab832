// Page faults of kernels that met a chunk while it was being moved: they wait for the move, and say nothing of memory
// that stays where it is.
//
// A fault is told up to some milliseconds after it happened, before its move's end is told or after. The newest
// thousand of either are kept for the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "policy/units.hpp"

namespace spillway::tools {

class MovingFaults {
 public:
  // Reports come every 5 ms, and CUPTI is late with them (docs/driver_facts.md).
  static constexpr policy::Nanoseconds kLate{50'000'000};

  // In order of the trace.
  void fault(policy::Address address, policy::Nanoseconds told);
  void moved(policy::Address address, policy::Bytes bytes, policy::Nanoseconds took, policy::Nanoseconds end);
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  static constexpr std::size_t kMost = 1024;
  struct Fault {
    policy::Address address;
    policy::Nanoseconds told;
  };
  struct Move {
    policy::Address address;
    policy::Bytes bytes;
    policy::Nanoseconds begin;
    policy::Nanoseconds end;
    [[nodiscard]] bool met_by(const Fault& fault) const;
  };
  std::deque<Fault> faults_;  // of no move so far
  std::deque<Move> moves_;
  std::uint64_t count_ = 0;
};

}  // namespace spillway::tools
