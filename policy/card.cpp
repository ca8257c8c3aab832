#include "policy/card.hpp"

#include <algorithm>

#include "policy/chunk_parts.hpp"
#include "policy/possible_events.hpp"

namespace spillway::policy {
namespace {

Bytes chunk_bytes(const CardAllocation& allocation, std::uint32_t chunk) {
  return std::min(kChunk, allocation.bytes - kChunk * chunk);
}

std::uint32_t first_chunk(Bytes offset) { return static_cast<std::uint32_t>(offset.count() / kChunk.count()); }

std::uint32_t end_chunk(const CardAllocation& allocation, Bytes offset, Bytes bytes) {
  const Bytes end = offset + std::min(bytes, allocation.bytes.saturating_minus(offset));
  return static_cast<std::uint32_t>((std::min(end, allocation.bytes).count() + kChunk.count() - 1) / kChunk.count());
}

}  // namespace

void Card::allocate(AllocationId id, Address address, Bytes bytes, Backing backing) {
  free(id);
  CardAllocation made{address, std::min(bytes, kMostMemory), backing, {}};
  if (backing == Backing::managed) made.chunks.resize(end_chunk(made, {}, made.bytes));
  allocations_[id] = std::move(made);
  by_address_[address.value] = id;
  ++version_;
  ++epoch_;
}

void Card::allocate_on_host(AllocationId id, Bytes bytes) {
  allocate(id, {}, bytes, Backing::managed);
  CardAllocation& made = allocations_.at(id);
  forget_address(id, made);
  for (std::uint32_t chunk = 0; chunk < made.chunks.size(); ++chunk) {
    made.chunks[chunk].mapped = true;
    place(made, chunk, Placement::host);
  }
}

void Card::map(AllocationId id, Address address) {
  const auto found = allocations_.find(id);
  if (found == allocations_.end()) return;
  forget_address(id, found->second);
  found->second.address = address;
  if (address) by_address_[address.value] = id;
  ++version_;
  ++epoch_;
}

void Card::forget_address(AllocationId id, const CardAllocation& allocation) {
  // The address may have been given out again before this end of it was told.
  const auto place = by_address_.find(allocation.address.value);
  if (place != by_address_.end() && place->second == id) by_address_.erase(place);
}

void Card::free(AllocationId id) {
  const auto found = allocations_.find(id);
  if (found == allocations_.end()) return;
  for (std::uint32_t chunk = 0; chunk < found->second.chunks.size(); ++chunk) {
    if (in_hbm(found->second.chunks[chunk].at)) resident_ -= chunk_bytes(found->second, chunk);
  }
  forget_address(id, found->second);
  allocations_.erase(found);
  ++version_;
  ++epoch_;
}

const CardAllocation* Card::find(AllocationId id) const {
  const auto found = allocations_.find(id);
  return found == allocations_.end() ? nullptr : &found->second;
}

void Card::advise(const AdviseRange& advice) {
  const auto found = allocations_.find(advice.allocation);
  if (found == allocations_.end() || found->second.chunks.empty()) return;
  CardAllocation& allocation = found->second;
  for (std::uint32_t i = first_chunk(advice.offset); i < end_chunk(allocation, advice.offset, advice.bytes); ++i) {
    CardChunk& chunk = allocation.chunks[i];
    switch (advice.advice) {
      case Advice::accessed_by:
        chunk.mapped = true;
        break;
      case Advice::unset_accessed_by:
        chunk.mapped = false;
        break;
      case Advice::prefer_host:
        chunk.prefers_host = true;
        break;
      case Advice::probe:
        chunk.mapped = false;
        chunk.prefers_host = true;
        break;
      case Advice::prefer_device:
      case Advice::unset_preferred:
        chunk.prefers_host = false;
        break;
      case Advice::read_mostly:
        break;
      case Advice::unset_read_mostly:
        if (chunk.at == Placement::duplicated)
          place(allocation, i, chunk.prefers_host ? Placement::host : Placement::device);
        break;
    }
  }
  ++version_;
}

void Card::place(CardAllocation& allocation, std::uint32_t index, Placement to) {
  CardChunk& chunk = allocation.chunks[index];
  const Bytes bytes = chunk_bytes(allocation, index);
  if (in_hbm(to) && !in_hbm(chunk.at)) {
    resident_ += bytes;
    peak_ = std::max(peak_, resident_);
    chunk.moved_in = chunk.at == Placement::host;
    chunk.used_since = !chunk.moved_in;
    if (chunk.moved_in && chunk.was_in) refetched_ += bytes;
    chunk.was_in = true;
  } else if (!in_hbm(to) && in_hbm(chunk.at)) {
    resident_ -= bytes;
    if (chunk.moved_in && !chunk.used_since) useless_ += bytes;
  }
  if (to == Placement::host || to == Placement::duplicated) chunk.host_pages = true;
  chunk.at = to;
  ++version_;
}

MoveJob Card::job(DecisionId decision, const MoveRange& move) const {
  MoveJob job;
  job.decision = decision;
  job.after = move.after;
  job.front = move.urgency == Urgency::blocking;
  job.way = MoveJob::Way::free;
  const CardAllocation* allocation = find(move.allocation);
  if (allocation == nullptr || allocation->chunks.empty()) return job;
  const bool inward = in_hbm(move.to);
  for (std::uint32_t i = first_chunk(move.offset); i < end_chunk(*allocation, move.offset, move.bytes); ++i) {
    const CardChunk& chunk = allocation->chunks[i];
    if (in_hbm(chunk.at) == inward && chunk.at != Placement::unpopulated) continue;
    job.bytes += chunk_bytes(*allocation, i);
    if (chunk.at == Placement::unpopulated) {
      job.way = inward ? MoveJob::Way::populate : MoveJob::Way::populate_host;
    } else {
      job.way = inward ? MoveJob::Way::in : MoveJob::Way::out;
      job.first_time_out = job.first_time_out || (!inward && !chunk.host_pages);
    }
  }
  return job;
}

void Card::carried_out(const MoveRange& move) {
  const auto found = allocations_.find(move.allocation);
  if (found == allocations_.end() || found->second.chunks.empty()) return;
  CardAllocation& allocation = found->second;
  for (std::uint32_t i = first_chunk(move.offset); i < end_chunk(allocation, move.offset, move.bytes); ++i) {
    place(allocation, i, move.to);
  }
}

template <class Visit>
void Card::each_chunk(const PricedTouch& touch, const Visit& visit) const {
  auto block = by_address_.upper_bound(touch.address.value);
  if (block == by_address_.begin()) return;
  --block;
  const CardAllocation& allocation = allocations_.at(block->second);
  const std::uint64_t offset = touch.address.value - allocation.address.value;
  if (offset >= allocation.bytes.count() || allocation.chunks.empty()) return;
  const Bytes bytes(std::min(touch.bytes.count(), allocation.bytes.count() - offset));
  policy::each_chunk(Bytes(offset), bytes, [&](std::uint32_t chunk, Bytes part) {
    visit(block->second, chunk, static_cast<double>(part.count()));
  });
}

LaunchLoad Card::load(const ShapeCost& shape) {
  LaunchLoad load;
  load.compute_seconds = shape.compute_seconds;
  for (const PricedTouch& touch : shape.touches) {
    each_chunk(touch, [&](AllocationId id, std::uint32_t index, double bytes) {
      CardAllocation& allocation = allocations_.at(id);
      CardChunk& chunk = allocation.chunks[index];
      chunk.used_since = true;
      if (in_hbm(chunk.at)) return;
      if (chunk.at == Placement::host && chunk.mapped) {
        load.remote_read += bytes * touch.reads;
        load.remote_write += bytes * touch.writes;
        return;
      }
      const auto whole = static_cast<double>(chunk_bytes(allocation, index).count());
      if (chunk.at == Placement::unpopulated) {
        load.first_touched += whole;
        place(allocation, index, chunk.prefers_host ? Placement::host : Placement::device);
      } else {
        load.faulted += whole;
        place(allocation, index, Placement::device);
        chunk.used_since = true;
      }
    });
  }
  return load;
}

void Card::uses(const ShapeCost& shape, std::vector<ChunkUse>& out) const {
  for (const PricedTouch& touch : shape.touches) {
    each_chunk(touch, [&](AllocationId id, std::uint32_t chunk, double bytes) {
      out.push_back({id, chunk, static_cast<float>(bytes * touch.reads), static_cast<float>(bytes * touch.writes)});
    });
  }
}

}  // namespace spillway::policy
