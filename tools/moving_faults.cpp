#include "tools/moving_faults.hpp"

#include <algorithm>

#include "tools/sane_time.hpp"

namespace spillway::tools {

using policy::Address;
using policy::Bytes;
using policy::Nanoseconds;

bool MovingFaults::Move::met_by(const Fault& fault) const {
  const bool inside = fault.address >= address && fault.address.value - address.value < bytes.count();
  return inside && fault.told >= begin && fault.told.saturating_minus(end) <= kLate;
}

void MovingFaults::fault(Address address, Nanoseconds told) {
  const Fault fault{address, told};
  if (std::any_of(moves_.begin(), moves_.end(), [&](const Move& move) { return move.met_by(fault); })) {
    ++count_;
    return;
  }
  if (faults_.size() == kMost) faults_.pop_front();
  faults_.push_back(fault);
}

void MovingFaults::moved(Address address, Bytes bytes, Nanoseconds took, Nanoseconds end) {
  const Move move{address, bytes, end.saturating_minus(sane(took)), end};
  count_ += std::erase_if(faults_, [&](const Fault& fault) { return move.met_by(fault); });
  if (moves_.size() == kMost) moves_.pop_front();
  moves_.push_back(move);
}

}  // namespace spillway::tools
