// What comes after the window is full stays on the host, mapped: a baseline, and what `adaptive` starts from.
#pragma once

#include <vector>

#include "policy/modes/mode.hpp"

namespace spillway::policy {

class Arrival : public Mode {
 public:
  using Mode::Mode;
  Bytes first_in_hbm(const Allocation& allocation, Bytes room, Cause& cause) override;
  void settled(const Allocation& allocation) override;
  void used(const Use& use) override;
  void freeing(const Allocation& allocation) override;
  // Last come, first out; small ones last of all.
  void make_room(DeviceIndex device, Bytes bytes) override;

 protected:
  // Of a caching allocator's segments for small tensors.
  static constexpr Bytes kSmall = Bytes(std::uint64_t{4} << 20);

 private:
  // The bytes it has opened moves for.
  Bytes send_out(AllocationId allocation, Bytes bytes, const Cause& cause);

  std::vector<AllocationId> order_;  // live managed allocations, oldest first
};

}  // namespace spillway::policy
