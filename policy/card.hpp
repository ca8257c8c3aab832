// The memory of a virtual device as it really is, kept apart from the engine's books: where each chunk's pages are, by
// the moves carried out and the faults taken. `replay` prices launches by it and checks the engine's books against it.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "policy/decision.hpp"
#include "policy/device_model.hpp"
#include "policy/event.hpp"
#include "policy/shape_costs.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

struct CardChunk {
  Placement at = Placement::unpopulated;
  bool mapped = false;  // AccessedBy: no faults
  bool prefers_host = false;
  bool host_pages = false;
  bool was_in = false;     // has been in HBM before: coming in again is a refetch
  bool moved_in = false;   // came by a move from the host, and
  bool used_since = true;  // has been used since
};

struct CardAllocation {
  Address address;
  Bytes bytes;
  Backing backing = Backing::device;
  std::vector<CardChunk> chunks;  // managed only
};

// A use of one chunk by a shape, as the card resolved it; for the bounds.
struct ChunkUse {
  AllocationId allocation;
  std::uint32_t chunk = 0;
  float reads = 0;  // bytes that cross if the chunk is on the host
  float writes = 0;
};

class Card {
 public:
  void allocate(AllocationId id, Address address, Bytes bytes, Backing backing);
  // Host memory under a map-style handle: on the host for good, and seen only where `map` says.
  void allocate_on_host(AllocationId id, Bytes bytes);
  void map(AllocationId id, Address address);
  void free(AllocationId id);
  void advise(const AdviseRange& advice);

  // The job that carries out a move, priced by where the pages are now.
  [[nodiscard]] MoveJob job(DecisionId decision, const MoveRange& move) const;
  void carried_out(const MoveRange& move);

  // What a launch of this shape costs now. Pages that fault come in, so the answer may change the card.
  LaunchLoad load(const ShapeCost& shape);
  void uses(const ShapeCost& shape, std::vector<ChunkUse>& out) const;

  // Changes when the answer of load() may have.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // Changes when the answer of uses() may have.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] Bytes resident() const { return resident_; }
  [[nodiscard]] Bytes resident_peak() const { return peak_; }
  [[nodiscard]] Bytes refetched() const { return refetched_; }
  [[nodiscard]] Bytes useless() const { return useless_; }
  [[nodiscard]] const CardAllocation* find(AllocationId id) const;

 private:
  template <class Visit>
  void each_chunk(const PricedTouch& touch, const Visit& visit) const;
  void place(CardAllocation& allocation, std::uint32_t chunk, Placement to);
  void forget_address(AllocationId id, const CardAllocation& allocation);

  std::unordered_map<AllocationId, CardAllocation> allocations_;
  std::map<std::uint64_t, AllocationId> by_address_;
  std::uint64_t version_ = 1, epoch_ = 1;
  Bytes resident_, peak_, refetched_, useless_;
};

}  // namespace spillway::policy
