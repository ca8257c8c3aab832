#include "tools/simulated_device/residency.hpp"

#include <algorithm>

#include "tools/simulated_device/costs.hpp"
#include "tools/simulated_device/observers.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

std::uint64_t use_counter = 0;  // world's lock

std::uint8_t bit(int device) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(device)); }

bool on_device(const Chunk& chunk) {
  return chunk.residency == Residency::device || chunk.residency == Residency::duplicated;
}

void put_on_device(Allocation& allocation, std::size_t index, int device, Residency residency) {
  Chunk& chunk = allocation.chunks[index];
  Device& card = world().devices[static_cast<std::size_t>(device)];
  if (!on_device(chunk)) card.managed_bytes += chunk_bytes(allocation, index);
  chunk.device = static_cast<std::int8_t>(device);
  chunk.residency = residency;
  card.managed_peak = std::max(card.managed_peak, card.managed_bytes);
  card.resident_peak = std::max(card.resident_peak, card.managed_bytes + card.plain_bytes);
}

void take_off_device(Allocation& allocation, std::size_t index, Residency residency) {
  Chunk& chunk = allocation.chunks[index];
  if (on_device(chunk)) {
    world().devices[static_cast<std::size_t>(chunk.device)].managed_bytes -= chunk_bytes(allocation, index);
  }
  chunk.residency = residency;
}

void note_in(Allocation& allocation, std::size_t index, Traffic traffic = Traffic::host_to_device) {
  Statistics& statistics = world().statistics;
  const auto bytes = chunk_bytes(allocation, index);
  statistics.migrated_in_bytes += bytes;
  statistics.host_to_device_bytes += bytes;
  observe_traffic(traffic, allocation.address + index * kChunkBytes, bytes, allocation.chunks[index].device);
}

void note_out(Allocation& allocation, std::size_t index) {
  Statistics& statistics = world().statistics;
  const auto bytes = chunk_bytes(allocation, index);
  statistics.migrated_out_bytes += bytes;
  statistics.device_to_host_bytes += bytes;
  observe_traffic(Traffic::device_to_host, allocation.address + index * kChunkBytes, bytes,
                  allocation.chunks[index].device);
}

void note_fault(Allocation& allocation, std::size_t index, int device) {
  ++world().statistics.faults;
  observe_traffic(Traffic::device_fault, allocation.address + index * kChunkBytes, 0, device);
}

// Host pages of the chunk are mapped for a device: all of them where it was told to, one by a fault.
void note_map(Allocation& allocation, std::size_t index, std::uint64_t bytes, int device) {
  observe_traffic(Traffic::remote_map, allocation.address + index * kChunkBytes, bytes, device);
}

// To the host, its pages now there. Mappings are set up for who asked for them.
void to_host(Allocation& allocation, std::size_t index) {
  Chunk& chunk = allocation.chunks[index];
  if (chunk.residency == Residency::device) note_out(allocation, index);
  take_off_device(allocation, index, Residency::host);
  chunk.has_host_pages = true;
  chunk.mapped = chunk.accessed_by;
  if (chunk.mapped != 0) note_map(allocation, index, chunk_bytes(allocation, index), chunk.device);
}

// Part of the chunk inside [address, address + bytes).
std::uint64_t overlap(const Allocation& allocation, std::size_t index, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t start = allocation.address + index * kChunkBytes;
  const std::uint64_t end = start + chunk_bytes(allocation, index);
  const std::uint64_t low = std::max(start, address);
  const std::uint64_t high = std::min(end, address + bytes);
  return high > low ? high - low : 0;
}

template <class Visit>
void for_each_chunk(const Allocation& allocation, std::uint64_t address, std::uint64_t bytes, Visit visit) {
  if (bytes == 0) return;
  const std::size_t first = (address - allocation.address) / kChunkBytes;
  const std::size_t last =
      std::min((address + bytes - 1 - allocation.address) / kChunkBytes, allocation.chunks.size() - 1);
  for (std::size_t index = first; index <= last; ++index) visit(index);
}

// A device touches an unpopulated chunk: a fault that makes pages, on the host if they are preferred there.
void populate_by_fault(Allocation& allocation, std::size_t index, int device, Touch& touch) {
  Chunk& chunk = allocation.chunks[index];
  const auto size = chunk_bytes(allocation, index);
  ++touch.faults;
  note_fault(allocation, index, device);
  if (chunk.preferred == kHostLocation || !make_room(device, size)) {
    chunk.residency = Residency::host;
    chunk.has_host_pages = true;
    chunk.mapped = static_cast<std::uint8_t>(chunk.accessed_by | bit(device));
    touch.populated_host_bytes += size;
    return;
  }
  put_on_device(allocation, index, device, Residency::device);
  touch.populated_device_bytes += size;
}

// A device touches pages that are only on the host.
void touch_on_host(Allocation& allocation, std::size_t index, int device, AccessKind kind, std::uint64_t size,
                   Touch& touch) {
  Chunk& chunk = allocation.chunks[index];
  if ((chunk.mapped & bit(device)) != 0) {
    touch.remote_bytes += size;
    world().statistics.remote_bytes += size;
    return;
  }
  ++touch.faults;
  note_fault(allocation, index, device);
  const auto whole = chunk_bytes(allocation, index);
  const bool stays = chunk.preferred == kHostLocation && !chunk.read_mostly;
  if (stays || !make_room(device, whole)) {
    chunk.mapped = static_cast<std::uint8_t>(chunk.mapped | bit(device));
    note_map(allocation, index, 4096, device);
    ++world().statistics.mapping_faults;
    touch.mapped_bytes += size;
    touch.remote_bytes += size;
    world().statistics.remote_bytes += size;
    return;
  }
  put_on_device(allocation, index, device,
                chunk.read_mostly && kind == AccessKind::read ? Residency::duplicated : Residency::device);
  note_in(allocation, index);
  touch.migrated_bytes += whole;
}

// Pages of another card: reached through the peer link as remote bytes, without moving.
bool on_other_device(const Chunk& chunk, int device) { return on_device(chunk) && chunk.device != device; }

void touch_chunk(Allocation& allocation, std::size_t index, int device, AccessKind kind, std::uint64_t size,
                 Touch& touch) {
  Chunk& chunk = allocation.chunks[index];
  chunk.last_use = ++use_counter;
  if (on_other_device(chunk, device)) {
    touch.remote_bytes += size;
    return;
  }
  switch (chunk.residency) {
    case Residency::unpopulated:
      populate_by_fault(allocation, index, device, touch);
      break;
    case Residency::device:
      touch.local_bytes += size;
      break;
    case Residency::host:
      touch_on_host(allocation, index, device, kind, size, touch);
      break;
    case Residency::duplicated:
      if (kind == AccessKind::write) {
        ++touch.faults;
        note_fault(allocation, index, device);
        chunk.residency = Residency::device;  // the host copy is stale now
        touch.collapsed_bytes += size;
      } else {
        touch.local_bytes += size;
      }
      break;
  }
}

std::int64_t drop_duplicate(Allocation& allocation, std::size_t index) {
  Chunk& chunk = allocation.chunks[index];
  if (chunk.residency != Residency::duplicated || chunk.preferred != kHostLocation) return 0;
  take_off_device(allocation, index, Residency::host);
  chunk.mapped = 0;  // measured: reads fault again until SetAccessedBy is repeated
  return costs::kDropChunk;
}

std::int64_t advise_accessed_by(Allocation& allocation, std::size_t index, CUmem_advise advice, int location) {
  Chunk& chunk = allocation.chunks[index];
  if (location == kHostLocation) {
    chunk.accessed_by_host = advice == CU_MEM_ADVISE_SET_ACCESSED_BY ? 1 : 0;
    return 0;
  }
  if (advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY) {  // measured: mappings that exist stay
    chunk.accessed_by = static_cast<std::uint8_t>(chunk.accessed_by & ~bit(location));
    return 0;
  }
  chunk.accessed_by = static_cast<std::uint8_t>(chunk.accessed_by | bit(location));
  if (chunk.residency == Residency::unpopulated) return 0;
  if (chunk.residency == Residency::host) {
    if ((chunk.mapped & bit(location)) == 0) note_map(allocation, index, chunk_bytes(allocation, index), location);
    chunk.mapped = static_cast<std::uint8_t>(chunk.mapped | bit(location));
  }
  return costs::kAdviseMapChunk;
}

}  // namespace

Touch& Touch::operator+=(const Touch& other) {
  local_bytes += other.local_bytes;
  remote_bytes += other.remote_bytes;
  migrated_bytes += other.migrated_bytes;
  populated_device_bytes += other.populated_device_bytes;
  populated_host_bytes += other.populated_host_bytes;
  collapsed_bytes += other.collapsed_bytes;
  mapped_bytes += other.mapped_bytes;
  faults += other.faults;
  return *this;
}

std::uint64_t chunk_bytes(const Allocation& allocation, std::size_t index) {
  const std::uint64_t whole_pages = (allocation.bytes + 4095) / 4096 * 4096;
  return std::min(kChunkBytes, whole_pages - index * kChunkBytes);
}

Touch touch_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, int device, AccessKind kind) {
  Touch touch;
  for_each_chunk(allocation, address, bytes, [&](std::size_t index) {
    touch_chunk(allocation, index, device, kind, overlap(allocation, index, address, bytes), touch);
  });
  return touch;
}

std::int64_t cost_of(const Touch& touch) {
  const auto bytes = [](std::uint64_t count) { return static_cast<double>(count); };
  return costs::at(bytes(touch.local_bytes + touch.migrated_bytes + touch.populated_device_bytes), costs::kMemory) +
         costs::at(bytes(touch.remote_bytes), costs::kRemote) +
         costs::at(bytes(touch.migrated_bytes), costs::kFaultMigration) +
         costs::at(bytes(touch.populated_device_bytes), costs::kFaultPopulateDevice) +
         costs::at(bytes(touch.populated_host_bytes), costs::kFaultPopulateHost) +
         costs::at(bytes(touch.collapsed_bytes), costs::kDuplicatedWrite) +
         costs::at(bytes(touch.mapped_bytes), costs::kFaultMap) +
         static_cast<std::int64_t>(touch.faults) * costs::kFaultBatch;
}

void touch_from_host(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, AccessKind kind) {
  for_each_chunk(allocation, address, bytes, [&](std::size_t index) {
    Chunk& chunk = allocation.chunks[index];
    if (chunk.residency == Residency::duplicated && kind == AccessKind::read) return;
    if (chunk.residency == Residency::device && chunk.read_mostly && kind == AccessKind::read) {
      chunk.residency = Residency::duplicated;
      chunk.has_host_pages = true;
      note_out(allocation, index);
      return;
    }
    if (chunk.residency != Residency::host) to_host(allocation, index);
  });
}

Moved prefetch_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, int location) {
  Moved moved;
  for_each_chunk(allocation, address, bytes, [&](std::size_t index) {
    Chunk& chunk = allocation.chunks[index];
    const auto size = chunk_bytes(allocation, index);
    chunk.last_prefetch = location;
    chunk.last_use = ++use_counter;
    if (location == kHostLocation) {
      if (chunk.residency == Residency::duplicated || chunk.residency == Residency::host) return;  // frees nothing
      if (chunk.residency == Residency::device) {
        moved.out_bytes += size;
        moved.time +=
            costs::at(static_cast<double>(size), chunk.has_host_pages ? costs::kPrefetchOut : costs::kPrefetchOutFirst);
        if (chunk.read_mostly) {  // a copy is made; the device keeps its own
          chunk.residency = Residency::duplicated;
          chunk.has_host_pages = true;
          note_out(allocation, index);
          return;
        }
      }
      to_host(allocation, index);
      return;
    }
    if (on_device(chunk) && chunk.device == location) return;
    if (on_other_device(chunk, location)) to_host(allocation, index);
    if (!make_room(location, size)) return;  // as the real driver: the pages stay, and no error is told
    if (chunk.residency == Residency::unpopulated) {
      put_on_device(allocation, index, location, Residency::device);
      moved.time += costs::at(static_cast<double>(size), costs::kPrefetchPopulate);
      return;
    }
    put_on_device(allocation, index, location, chunk.read_mostly ? Residency::duplicated : Residency::device);
    note_in(allocation, index);
    moved.in_bytes += size;
    moved.time += costs::at(static_cast<double>(size), costs::kPrefetchIn);
  });
  return moved;
}

std::int64_t advise_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, CUmem_advise advice,
                            int location) {
  std::int64_t time = costs::kAdviseRange;
  for_each_chunk(allocation, address, bytes, [&](std::size_t index) {
    Chunk& chunk = allocation.chunks[index];
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
        chunk.read_mostly = true;
        break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        chunk.read_mostly = false;
        time += drop_duplicate(allocation, index);
        if (chunk.residency == Residency::duplicated) chunk.residency = Residency::device;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        chunk.preferred = location;
        // Measured: pages that shall move, and do not, lose the mappings that nobody asked for.
        if (location != kHostLocation && chunk.residency == Residency::host) {
          chunk.mapped = static_cast<std::uint8_t>(chunk.mapped & chunk.accessed_by);
          time += costs::kUnmapChunk;
        }
        break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        chunk.preferred = kNoLocation;
        break;
      default:
        time += advise_accessed_by(allocation, index, advice, location);
    }
  });
  return time;
}

void discard_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes) {
  for_each_chunk(allocation, address, bytes, [&](std::size_t index) {
    if (overlap(allocation, index, address, bytes) < chunk_bytes(allocation, index)) return;  // whole chunks only
    take_off_device(allocation, index, Residency::unpopulated);
    allocation.chunks[index].mapped = 0;
  });
}

bool make_room(int device, std::uint64_t bytes) {
  World& w = world();
  Device& card = w.devices[static_cast<std::size_t>(device)];
  while (card.plain_bytes + card.managed_bytes + bytes > w.settings.memory_bytes) {
    Allocation* victim = nullptr;
    std::size_t victim_index = 0;
    std::uint64_t oldest = ~std::uint64_t{0};
    for (auto& [address, allocation] : w.memory.live()) {
      for (std::size_t index = 0; index < allocation.chunks.size(); ++index) {
        const Chunk& chunk = allocation.chunks[index];
        if (on_device(chunk) && chunk.device == device && chunk.last_use < oldest) {
          oldest = chunk.last_use;
          victim = &allocation;
          victim_index = index;
        }
      }
    }
    if (victim == nullptr) return false;
    ++w.statistics.driver_evictions;
    w.statistics.driver_evicted_bytes += chunk_bytes(*victim, victim_index);
    to_host(*victim, victim_index);
  }
  return true;
}

void forget_managed(Allocation& allocation) {
  for (std::size_t index = 0; index < allocation.chunks.size(); ++index) {
    take_off_device(allocation, index, Residency::unpopulated);
  }
}

}  // namespace spillway::simulated
