// What things cost on the virtual clock. Plain constants measured on one H200 (PCIe 5 x16); no claim about speed is
// ever made from a simulated run, they only give the simulation the right shape (which way is dearer than which).
#pragma once

#include <cstdint>

namespace spillway::simulated::costs {

// Bytes per nanosecond are GB/s.
inline constexpr double kLinkEachWay = 55;        // "pinned memcpy, host to device / device to host: 55 / 55"
inline constexpr double kPageableCopy = 10;       // pageable memcpy is staged; between the faults' and the link's speed
inline constexpr double kPrefetchIn = 50;         // "prefetch host -> device, one 4 GiB call: 50 GB/s"
inline constexpr double kPrefetchPopulate = 237;  // "prefetch of an unpopulated range to the device: 237 GB/s"
inline constexpr double kPrefetchOut = 12;        // "prefetch device -> host: 9-16 GB/s"
inline constexpr double kPrefetchOutFirst = 5;    // "4-6 the first time (host pages are allocated then)"
inline constexpr double kFaultMigration = 8;      // "GPU page faults on host pages: 7-9 GB/s"
inline constexpr double kFaultPopulateDevice = 17;  // "first GPU touch of an unpopulated range: 13-22"
inline constexpr double kFaultPopulateHost = 4;     // "preferred = host: 3-5 GB/s"
inline constexpr double kRemote = 50;               // "kernel reading (writing) host pages mapped: 48-51 (52) GB/s"
inline constexpr double kFaultMap = 1;              // "reading a whole unmapped chunk costs 2 ms": 4 KiB a fault
inline constexpr double kMemory = 4415;             // "resident managed memory, read bandwidth: 4415 GB/s"
inline constexpr double kDuplicatedWrite = 0.06;    // "a GPU write to a duplicated read-mostly page: 0.06 GB/s"
inline constexpr double kFloatingPoint = 60'000;    // flop per ns, single precision

inline constexpr std::int64_t kLaunch = 4'000;  // ns, "launch latency: p50 4 us"
inline constexpr std::int64_t kCall = 1'000;    // ns on the calling thread for any driver call
inline constexpr std::int64_t kPrefetchCall =
    70'000;  // "calls of 2 MiB: 116 us a call, spent inside the call", less the copy
inline constexpr std::int64_t kFaultBatch = 15'000;        // "one touch per 2 MiB costs 15 us"
inline constexpr std::int64_t kAdviseRange = 3'000;        // "SetPreferredLocation: 1-3 us per 32 MiB"
inline constexpr std::int64_t kAdviseMapChunk = 35'000;    // "SetAccessedBy on populated pages: 25-50 us per 2 MiB"
inline constexpr std::int64_t kUnmapChunk = 47'000;        // "unmapped by preferred = device and host: 47 us per 2 MiB"
inline constexpr std::int64_t kDropChunk = 40'000;         // "device copy dropped by UnsetReadMostly: 20 us per MiB"
inline constexpr std::int64_t kManagedFreeChunk = 35'000;  // "freeing 4 GiB of managed memory with host pages: 71 ms"

constexpr std::int64_t at(double bytes, double bytes_per_nanosecond) {
  return static_cast<std::int64_t>(bytes / bytes_per_nanosecond);
}

}  // namespace spillway::simulated::costs
