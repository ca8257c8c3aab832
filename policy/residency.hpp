// The ledger of where every chunk of managed memory is, and of the moves that are under way.
//
// Counts, per device: resident (pages in HBM), arriving (open moves into HBM), on host. A chunk that is leaving counts
// as resident until its move is finished; one that is arriving counts from the moment the move is opened. So resident +
// arriving never understates what HBM holds, and keeping it below the window keeps HBM below the budget. Single writer,
// no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

using ChunkIndex = Id<struct ChunkTag, std::uint32_t>;  // within its allocation; 0 is the first

// Chunks [first, first + count) of one allocation.
struct ChunkRange {
  AllocationId allocation;
  ChunkIndex first;
  std::uint32_t count = 0;
  friend bool operator==(const ChunkRange&, const ChunkRange&) = default;
};

struct Chunk {
  Placement at = Placement::unpopulated;
  bool moving = false;
  bool prefers_host = false;  // a first touch populates it on the host
  bool host_pages = false;    // host pages exist; the driver keeps them once allocated
  LaunchNumber last_use;
};

struct ResidencyUsage {
  Bytes managed;
  Bytes resident;
  Bytes arriving;
  Bytes on_host;
  Bytes peak;      // highest resident + arriving
  Bytes moved_in;  // finished moves only; population is no move
  Bytes moved_out;
  [[nodiscard]] Bytes held() const { return resident + arriving; }
};

// Of one allocation, now.
struct AllocationPages {
  Bytes resident;
  Bytes on_host;
  Bytes crossed;  // the link, both ways, by finished moves and faults
};

struct FinishedMove {
  ChunkRange range;
  Placement from_worst = Placement::unpopulated;  // placement of its first chunk before the move
  Placement to = Placement::device;
  Bytes bytes;
};

class Residency {
 public:
  void add(AllocationId allocation, DeviceIndex device, Bytes bytes);
  // Memory that is on the host for good: counted there, and never moved.
  void add_on_host(AllocationId allocation, DeviceIndex device, Bytes bytes);
  // Forgets the allocation; its open moves are forgotten as well and their end is ignored.
  void remove(AllocationId allocation);

  [[nodiscard]] bool holds(AllocationId allocation) const { return ledgers_.contains(allocation); }
  [[nodiscard]] const std::vector<Chunk>& chunks(AllocationId allocation) const;
  [[nodiscard]] DeviceIndex device(AllocationId allocation) const;
  [[nodiscard]] Bytes chunk_bytes(AllocationId allocation, ChunkIndex chunk) const;
  [[nodiscard]] Bytes range_bytes(const ChunkRange& range) const;
  // The chunks that [offset, offset + bytes) touches, clipped to the allocation.
  [[nodiscard]] ChunkRange range(AllocationId allocation, Bytes offset, Bytes bytes) const;

  // Bytes that a move to the device of this range would add to resident + arriving.
  [[nodiscard]] Bytes growth(const ChunkRange& range) const;
  // Bytes of host pages that a move to the host would allocate.
  [[nodiscard]] Bytes host_growth(const ChunkRange& range) const;
  // Opens a move; false (and nothing changes) if a chunk of it is moving already, the range is outside or where it is
  // for good.
  bool open_move(DecisionId decision, const ChunkRange& range, Placement to);
  std::optional<FinishedMove> finish_move(DecisionId decision, MoveOutcome outcome);
  [[nodiscard]] std::size_t open_moves() const { return open_.size(); }
  [[nodiscard]] bool moving(AllocationId allocation) const;
  // Bytes of HBM that open moves hold, either way: no room can be made of them before those moves are finished.
  [[nodiscard]] Bytes held_by_moves(DeviceIndex device) const;
  // Bytes of HBM that open moves to the host will give back.
  [[nodiscard]] Bytes leaving(DeviceIndex device) const;

  // Any chunk of it.
  [[nodiscard]] bool prefers_host(const ChunkRange& range) const;
  void set_prefers_host(const ChunkRange& range, bool prefers);
  // The GPU touched these without AccessedBy: the driver faults them in (the baselines).
  void fault_in(const ChunkRange& range);
  // The GPU touched these with AccessedBy before we populated them: they are where a first touch puts them.
  void use(const ChunkRange& range, LaunchNumber launch);

  [[nodiscard]] const ResidencyUsage& usage(DeviceIndex device) const;
  // Each allocation that is held: `visit(id, device, pages)`.
  template <class Visit>
  void each(const Visit& visit) const {
    for (const auto& [id, ledger] : ledgers_) visit(id, ledger.device, ledger.pages);
  }
  [[nodiscard]] Bytes host_pages() const { return host_pages_; }
  [[nodiscard]] std::string check_invariants() const;

 private:
  struct Ledger {
    DeviceIndex device;
    Bytes bytes;
    bool for_good = false;  // on the host
    AllocationPages pages;
    std::vector<Chunk> chunks;
  };
  struct OpenMove {
    ChunkRange range;
    Placement to = Placement::device;
  };
  ResidencyUsage& usage_of(const Ledger& ledger) { return usage_[ledger.device.value]; }
  void place(Ledger& ledger, std::uint32_t index, Placement to);

  std::unordered_map<AllocationId, Ledger> ledgers_;
  std::unordered_map<DecisionId, OpenMove> open_;
  std::unordered_map<std::uint32_t, ResidencyUsage> usage_;
  Bytes host_pages_;
};

}  // namespace spillway::policy
