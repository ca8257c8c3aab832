#include "policy/modes/demand.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace spillway::policy {

Bytes Demand::first_in_hbm(const Allocation& allocation, Bytes room, Cause& cause) {
  cause.reason = Reason::mode;
  if (first_ == FirstTouch::faults) return {};
  const Bytes wanted = std::min(allocation.bytes, room);
  return wanted == allocation.bytes ? wanted : Bytes(wanted.count() / kChunk.count() * kChunk.count());
}

void Demand::settled(const Allocation& allocation) {
  const ChunkRange inside = books_.residency.range(allocation.id, {}, allocation.planned_on_device);
  if (allocation.planned_on_device == Bytes()) return;
  writer_.move(inside, Placement::device, Urgency::blocking, {}, {}, allocation.cause);
}

void Demand::used(const Use& use) {
  pending_launch_ = use.launch;
  current_.clear();
  for (const Touch& touch : use.touches) {
    if (!touch.managed) continue;
    const ChunkRange range = books_.residency.range(touch.allocation, touch.offset, touch.bytes);
    books_.residency.use(range, use.launch);
    current_.push_back(range);
    for (std::uint32_t index = range.first.value; index < range.first.value + range.count; ++index) {
      pending_.push_back({range.allocation, {index}, 1});
    }
  }
  admit_pending();
}

void Demand::admit_pending() {
  std::vector<ChunkRange> left;
  Bytes missing;
  DeviceIndex device;
  for (const ChunkRange& one : pending_) {
    const std::vector<Chunk>& chunks = books_.residency.chunks(one.allocation);
    if (one.first.value >= chunks.size()) continue;
    const Chunk& chunk = chunks[one.first.value];
    const Bytes growth = books_.residency.growth(one);
    if (growth == Bytes() || (chunk.prefers_host && chunk.at != Placement::device)) continue;
    const DeviceIndex home = books_.residency.device(one.allocation);
    if (!chunk.moving && growth <= books_.room(home)) {
      books_.residency.fault_in(one);
      continue;
    }
    left.push_back(one);
    device = home;
    missing += growth;
  }
  pending_ = std::move(left);
  if (pending_.empty() || books_.residency.leaving(device) > Bytes()) return;  // `moved` comes back here
  missing = missing.saturating_minus(books_.room(device));
  if (evict(device, missing, Keep::current_use, Reason::least_recent) > Bytes()) return;
  for (const ChunkRange& one : pending_) map_in_place(one);
  pending_.clear();
}

void Demand::freeing(const Allocation& allocation) {
  const auto of_it = [&](const ChunkRange& range) { return range.allocation == allocation.id; };
  std::erase_if(current_, of_it);
  std::erase_if(pending_, of_it);
}

void Demand::moved(const FinishedMove& move, MoveOutcome outcome, Nanoseconds) {
  const Allocation* allocation = books_.allocations.find(move.range.allocation);
  const bool freed = allocation == nullptr || allocation->life != AllocationLife::live;
  if (outcome != MoveOutcome::done && !freed) {
    // Asking again would be refused again, for ever: what has no room is used in place.
    const std::vector<ChunkRange> left = std::exchange(pending_, {});
    for (const ChunkRange& one : left) map_in_place(one);
    return;
  }
  admit_pending();
}

void Demand::make_room(DeviceIndex device, Bytes bytes, RoomFor /*what*/) {
  evict(device, bytes, Keep::nothing, Reason::device_budget);
}

Bytes Demand::evict(DeviceIndex device, Bytes bytes, Keep keep, Reason reason) {
  std::set<std::pair<AllocationId, std::uint32_t>> kept;
  for (const ChunkRange& range : current_) {
    for (std::uint32_t i = 0; keep == Keep::current_use && i < range.count; ++i) {
      kept.emplace(range.allocation, range.first.value + i);
    }
  }
  std::vector<std::tuple<LaunchNumber, AllocationId, std::uint32_t>> candidates;
  for (const auto& [id, allocation] : books_.allocations.all()) {
    if (!allocation.managed() || allocation.device != device || allocation.life != AllocationLife::live) continue;
    const std::vector<Chunk>& chunks = books_.residency.chunks(id);
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      const Chunk& chunk = chunks[index];
      if (chunk.at != Placement::device || chunk.moving) continue;
      if (kept.contains({id, index})) continue;
      candidates.emplace_back(chunk.last_use, id, index);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  Cause cause;
  cause.reason = reason;
  if (keep == Keep::current_use) cause.launch = pending_launch_;
  Bytes sent;
  for (std::size_t start = 0; start < candidates.size() && sent < bytes;) {
    // Neighbours of the same age leave in one call.
    const auto& [age, id, first] = candidates[start];
    std::uint32_t count = 0;
    Bytes run;
    while (start < candidates.size() && sent + run < bytes) {
      const auto& [next_age, next_id, next_index] = candidates[start];
      if (next_age != age || next_id != id || next_index != first + count) break;
      run += books_.residency.chunk_bytes(id, {next_index});
      ++count;
      ++start;
    }
    if (!writer_.move({id, {first}, count}, Placement::host, Urgency::blocking, age, {}, cause)) break;
    sent += run;
  }
  return sent;
}

void Demand::map_in_place(const ChunkRange& range) {
  Cause cause;
  cause.reason = Reason::over_working_set;
  cause.launch = pending_launch_;
  writer_.advise(range, Advice::prefer_host, cause);
  writer_.advise(range, Advice::accessed_by, cause);
  // Host pages now: unpopulated ones would be slowest to touch.
  writer_.move(range, Placement::host, Urgency::blocking, {}, {}, cause);
}

}  // namespace spillway::policy
