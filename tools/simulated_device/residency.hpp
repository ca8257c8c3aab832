// Where each 2 MiB chunk of managed memory is, and what touching, advising and prefetching it does.
//
// Host threads touching managed memory directly are not seen (that would need a signal handler in someone else's
// process); copies made by the driver, kernels and prefetches are. World's lock held throughout.
#pragma once

#include <cstdint>

#include "tools/simulated_device/entry_points.hpp"

namespace spillway::simulated {

struct Allocation;

inline constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;
inline constexpr int kHostLocation = CU_DEVICE_CPU;    // -1
inline constexpr int kNoLocation = CU_DEVICE_INVALID;  // -2

enum class Residency : std::uint8_t { unpopulated, device, host, duplicated };

struct Chunk {
  Residency residency = Residency::unpopulated;
  bool read_mostly = false;
  bool has_host_pages = false;   // host pages, once allocated, stay
  std::uint8_t accessed_by = 0;  // devices told to keep a mapping
  std::uint8_t mapped = 0;       // devices that can reach host pages without a fault now
  std::uint8_t accessed_by_host = 0;
  std::int8_t device = 0;  // where the device copy is
  int preferred = kNoLocation;
  int last_prefetch = kNoLocation;
  std::uint64_t last_use = 0;
};

// What touching a range did; the caller turns it into time.
struct Touch {
  std::uint64_t local_bytes = 0;
  std::uint64_t remote_bytes = 0;    // over the link, in place
  std::uint64_t migrated_bytes = 0;  // brought in by faults
  std::uint64_t populated_device_bytes = 0;
  std::uint64_t populated_host_bytes = 0;
  std::uint64_t collapsed_bytes = 0;  // writes to duplicated pages
  std::uint64_t mapped_bytes = 0;     // mapped by faults, in place
  std::uint64_t faults = 0;
  Touch& operator+=(const Touch& other);
};

enum class AccessKind { read, write };

// A kernel or copy on `device` touches [address, address + bytes) of a managed allocation.
Touch touch_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, int device, AccessKind kind);
std::int64_t cost_of(const Touch& touch);

// The driver writes or reads the range from the host side.
void touch_from_host(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, AccessKind kind);

// Moves the range to a device or to the host; returns the time it takes on the link.
struct Moved {
  std::int64_t time = 0;
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
};
Moved prefetch_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, int location);

// Returns the time spent inside the call.
std::int64_t advise_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes, CUmem_advise advice,
                            int location);
void discard_managed(Allocation& allocation, std::uint64_t address, std::uint64_t bytes);

// Takes managed pages off the device until `bytes` more fit; counted as driver evictions. False when nothing is left to
// take.
bool make_room(int device, std::uint64_t bytes);
void forget_managed(Allocation& allocation);

// Bytes of the chunk that belong to the allocation (the last one may be cut short).
std::uint64_t chunk_bytes(const Allocation& allocation, std::size_t index);

}  // namespace spillway::simulated
