// Raw managed memory, as others use it: pages come by faults. Our least-recently-launched order keeps what is resident
// inside the window, ahead of the launch that needs the room; the driver's own eviction never starts. The baseline.
//
// A launch, copy or fill that needs room waits for it: its evictions are blocking, and its own pages are counted as
// resident only when the room is there. What one of them touches beyond the whole window is read and written in place
// from then on.
#pragma once

#include <vector>

#include "policy/modes/mode.hpp"

namespace spillway::policy {

class Demand : public Mode {
 public:
  // `prefetched`: one prefetch when the memory is allocated, as far as the window has room (mode alloc_prefetch).
  enum class FirstTouch : std::uint8_t { faults, prefetched };
  Demand(Books& books, DecisionWriter& writer, FirstTouch first) : Mode(books, writer), first_(first) {}

  [[nodiscard]] bool raw() const override { return true; }
  Bytes first_in_hbm(const Allocation& allocation, Bytes room, Cause& cause) override;
  void settled(const Allocation& allocation) override;
  void used(const Use& use) override;
  void freeing(const Allocation& allocation) override;
  void moved(const FinishedMove& move, MoveOutcome outcome, Nanoseconds now) override;
  // Memory that is gone takes its moves along, and nobody tells of those.
  void heard(const Event& event) override {
    if (std::holds_alternative<Freed>(event.body) && !pending_.empty()) admit_pending();
  }
  void make_room(DeviceIndex device, Bytes bytes, RoomFor what) override;

 private:
  // Lets the pending chunks in as far as there is room, makes room, and maps in place what never fits.
  void admit_pending();
  // Sends least recently used chunks out, never those that the current use names: a use that is larger than the window
  // would push its own pages out before it runs, and fault them in again past the ledger. The bytes it has opened moves
  // for.
  enum class Keep : std::uint8_t { nothing, current_use };
  Bytes evict(DeviceIndex device, Bytes bytes, Keep keep, Reason reason);
  void map_in_place(const ChunkRange& range);

  FirstTouch first_;
  LaunchNumber pending_launch_;
  std::vector<ChunkRange> current_;  // what the current use names
  std::vector<ChunkRange> pending_;  // single chunks that it is about to fault in
};

}  // namespace spillway::policy
