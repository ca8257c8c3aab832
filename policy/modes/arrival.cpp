#include "policy/modes/arrival.hpp"

#include <algorithm>
#include <optional>

namespace spillway::policy {
namespace {

// Population goes in pieces, so that work on the first of them need not wait for the last.
constexpr std::uint32_t kPopulationChunks = 128;  // 256 MiB: 48 of 50 GB/s (docs/driver_facts.md, "Moving pages")

// The program waits until its memory is populated, as a kernel that comes first takes page faults, which are no faster
// (3 to 5 GB/s either way) and disturb others. Beyond this size, about a second's work, it does not wait: who asks for
// so much at once mostly manages it by himself, and uses it late or never.
constexpr Bytes kMostWaitedFor{std::uint64_t{4} << 30};

}  // namespace

Bytes Arrival::first_in_hbm(const Allocation& allocation, Bytes room, Cause& cause) {
  const Bytes wanted = std::min(allocation.bytes, room);
  if (wanted == allocation.bytes) {
    cause.reason = Reason::window_room;
    return wanted;
  }
  cause.reason = Reason::window_full;
  return Bytes(wanted.count() / kChunk.count() * kChunk.count());
}

void Arrival::settled(const Allocation& allocation) {
  order_.push_back(allocation.id);
  const ChunkRange all = books_.residency.range(allocation.id, {}, allocation.bytes);
  const ChunkRange inside = books_.residency.range(allocation.id, {}, allocation.planned_on_device);
  const ChunkRange outside{allocation.id, {inside.count}, all.count - inside.count};
  Cause room;
  room.reason = Reason::window_room;
  Cause full;
  full.reason = Reason::window_full;
  // Memory that a rule sends to the host is there for that, however much room there is.
  if (allocation.cause.reason == Reason::rule) full = allocation.cause;
  // The preference comes before AccessedBy and population, so that a first touch in between lands on the host too.
  if (outside.count > 0) writer_.advise(outside, Advice::prefer_host, full);
  writer_.advise(all, Advice::accessed_by, allocation.cause);
  for (std::uint32_t done = 0; done < inside.count; done += kPopulationChunks) {
    const ChunkRange piece{
        allocation.id, {inside.first.value + done}, std::min(kPopulationChunks, inside.count - done)};
    if (writer_.move(piece, Placement::device, Urgency::blocking, {}, {}, room)) continue;
    // Plain memory was promised since, and what makes room for it has not left yet: unpopulated, this would come in on
    // its first touch, past the ledger.
    writer_.advise(piece, Advice::prefer_host, full);
    writer_.move(piece, Placement::host, Urgency::blocking, {}, {}, full);
  }
  const Urgency urgency = allocation.bytes <= kMostWaitedFor ? Urgency::blocking : Urgency::background;
  for (std::uint32_t done = 0; done < outside.count; done += kPopulationChunks) {
    writer_.move({allocation.id, {outside.first.value + done}, std::min(kPopulationChunks, outside.count - done)},
                 Placement::host, urgency, {}, {}, full);
  }
}

void Arrival::used(const Use& use) {
  for (const Touch& touch : use.touches) {
    if (!touch.managed) continue;
    books_.residency.use(books_.residency.range(touch.allocation, touch.offset, touch.bytes), use.launch);
  }
}

void Arrival::freeing(const Allocation& allocation) { std::erase(order_, allocation.id); }

bool Arrival::kept(const Allocation& allocation) const {
  return allocation.rule != nullptr && allocation.rule->action.place == RulePlace::device;
}

Arrival::Leaves Arrival::turn_of(const Allocation& allocation) const {
  if (!books_.rules.empty() && kept(allocation)) return Leaves::last;
  const auto evict = allocation.rule == nullptr ? std::nullopt : allocation.rule->action.evict;
  if (evict == EvictClass::first) return Leaves::first;
  if (evict == EvictClass::last) return Leaves::late;
  return allocation.bytes <= kSmall ? Leaves::among_small : Leaves::among_large;
}

void Arrival::make_room(DeviceIndex device, Bytes bytes, RoomFor what) {
  Cause cause;
  cause.reason = Reason::device_budget;
  Bytes freed;
  for (const Leaves turn : {Leaves::first, Leaves::among_large, Leaves::among_small, Leaves::late, Leaves::last}) {
    const bool by_rule = turn == Leaves::first || turn == Leaves::late || turn == Leaves::last;
    if (by_rule && books_.rules.empty()) continue;
    // Small ones that send small ones out win nothing.
    if (what == RoomFor::managed && (turn == Leaves::among_small || turn == Leaves::last)) continue;
    for (auto id = order_.rbegin(); id != order_.rend() && freed < bytes; ++id) {
      if (books_.residency.device(*id) != device || turn_of(*books_.allocations.find(*id)) != turn) continue;
      freed += send_out(*id, bytes - freed, cause);
    }
  }
}

// What the host has no room for is told nothing either: that would be a call for each piece of all that is in HBM.
bool Arrival::leave(const ChunkRange& range, const Cause& cause) {
  if (books_.residency.host_growth(range) > books_.host_room()) return false;
  writer_.advise(range, Advice::prefer_host, cause);
  return writer_.move(range, Placement::host, Urgency::blocking, {}, {}, cause).has_value();
}

Bytes Arrival::send_out(AllocationId allocation, Bytes bytes, const Cause& cause) {
  const std::vector<Chunk>& chunks = books_.residency.chunks(allocation);
  const auto stays = [&chunks](std::uint32_t index) {
    return chunks[index].at != Placement::device || chunks[index].moving;
  };
  Bytes freed;
  // Runs of chunks, from the end: one call moves a run.
  for (auto index = static_cast<std::uint32_t>(chunks.size()); index > 0 && freed < bytes;) {
    while (index > 0 && stays(index - 1)) --index;
    const std::uint32_t end = index;
    Bytes run;
    while (index > 0 && !stays(index - 1) && freed + run < bytes) {
      --index;
      run += books_.residency.chunk_bytes(allocation, {index});
    }
    if (end == index) break;
    if (leave({allocation, {index}, end - index}, cause)) freed += run;
  }
  return freed;
}

}  // namespace spillway::policy
