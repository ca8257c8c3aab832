// What the launch path writes into a thread's ring: plain words, no pointers into the shim.
#pragma once

#include <cstddef>
#include <cstdint>

#include "policy/units.hpp"

namespace spillway::shim {

enum class RecordKind : std::uint8_t {
  launch = 1,        // LaunchRecord, packed words of touches, the ticket if it is timed, the number if it is marked
  graph_launch = 2,  // GraphLaunchRecord
  copy = 3,          // CopyRecord
  fill = 4,          // FillRecord
};

// A pointer argument in one word: 48 bits of address, 16 bits of parameter number.
struct Touch {
  std::uint64_t packed = 0;
  static constexpr Touch of(std::uint64_t address, std::uint16_t argument) {
    return {address | (std::uint64_t{argument} << 48)};
  }
  [[nodiscard]] constexpr std::uint64_t address() const { return packed & 0xFFFF'FFFF'FFFFULL; }
  [[nodiscard]] constexpr std::uint16_t argument() const { return static_cast<std::uint16_t>(packed >> 48); }
};

// A stream as the ring knows it: the driver's handle; 0 is the legacy default stream; the per-thread default stream
// is kPerThreadStream | number of the thread's ring, as each thread has its own.
inline constexpr std::uint64_t kPerThreadStream = std::uint64_t{1} << 63;

struct RecordHeader {
  RecordKind kind = RecordKind::launch;
  std::uint8_t flags = 0;
  std::uint16_t words = 0;   // of the whole record, header included
  std::uint32_t detail = 0;  // launch: FunctionId; copy: policy::CopyKind
  std::int64_t time = 0;     // ticks(), just after the driver accepted the call
  std::uint64_t stream = 0;
};
static_assert(sizeof(RecordHeader) == 24);

inline constexpr std::uint8_t kTouchesCut = 1;        // more pointers than kTouchLimit; the rest was left out
inline constexpr std::uint8_t kArgumentsUnknown = 2;  // the parameter layout is not known: no argument was read
inline constexpr std::uint8_t kCapturing = 4;         // went into a graph being captured and did not run
inline constexpr std::uint8_t kTimed = 8;             // timed by events; the record ends with the ticket
inline constexpr std::uint8_t kMarked = 16;           // left an event as a mark; the record's last word is its number
inline constexpr std::size_t kTouchLimit = 4096;

struct LaunchRecord {
  RecordHeader header;
  std::uint64_t threads = 0;  // grid x block
  [[nodiscard]] bool timed() const { return (header.flags & kTimed) != 0; }
  [[nodiscard]] bool marked() const { return (header.flags & kMarked) != 0; }
  [[nodiscard]] std::size_t touch_count() const {
    return header.words - sizeof(LaunchRecord) / 8 - (timed() ? 1U : 0U) - (marked() ? 1U : 0U);
  }
  [[nodiscard]] const Touch* touches() const { return reinterpret_cast<const Touch*>(this + 1); }
  [[nodiscard]] std::uint64_t ticket() const { return timed() ? touches()[touch_count()].packed : 0; }
  [[nodiscard]] std::uint64_t mark() const {
    return marked() ? reinterpret_cast<const std::uint64_t*>(this)[header.words - 1] : 0;
  }
  [[nodiscard]] policy::FunctionId function() const { return {header.detail}; }
};
static_assert(sizeof(LaunchRecord) == 32);

struct GraphLaunchRecord {
  RecordHeader header;
  std::uint64_t executable = 0;  // CUgraphExec
  std::uint64_t ticket = 0;      // timed by events if not 0
  std::uint64_t mark = 0;        // left an event if not 0
};

struct CopyRecord {
  RecordHeader header;
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
};

struct FillRecord {
  RecordHeader header;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

}  // namespace spillway::shim
