// What comes after the window is full stays on the host, mapped: a baseline, and what `adaptive` starts from.
#pragma once

#include <cstdint>
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
  // As the policy file says; of the rest, small ones after all others; last come, first out.
  void make_room(DeviceIndex device, Bytes bytes, RoomFor what) override;

 protected:
  // Of a caching allocator's segments for small tensors.
  static constexpr Bytes kSmall = Bytes(std::uint64_t{4} << 20);
  // By a rule of the policy file, in HBM.
  [[nodiscard]] virtual bool kept(const Allocation& allocation) const;
  bool leave(const ChunkRange& range, const Cause& cause);

 private:
  enum class Leaves : std::uint8_t { first, among_large, among_small, late, last };
  [[nodiscard]] Leaves turn_of(const Allocation& allocation) const;
  // The bytes it has opened moves for.
  Bytes send_out(AllocationId allocation, Bytes bytes, const Cause& cause);

  std::vector<AllocationId> order_;  // live managed allocations, oldest first
};

}  // namespace spillway::policy
