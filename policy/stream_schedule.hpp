// Streaming ahead of use: which pieces of memory take turns in HBM within one iteration.
//
// An iteration that repeats is cut into stretches. Where the planner's layout leaves a piece on the host which one part
// of the iteration uses many times, it may come in one stretch before that part and leave in the one after, in the room
// of pieces that nothing uses meanwhile and that are back one stretch before their next use. Moves overlap with
// launches; so a stretch is taken to last as long as its launches, or as the link inward, or as the lane outward is
// busy, whichever is longest, and a turn is taken if the stretches together get shorter by more than a part of what its
// moves take. Greedy: turns that save most a byte and stretch first. It is Belady's question with use in place and
// the way back counted, answered for turns only: the layout itself is not changed.
//
// Cost: the densest turns and the longest pauses are looked at, so many of each: 0.2 s at most, for any size of memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/residency.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

inline constexpr std::size_t kMostStretches = 64;
// Bit k is stretch k.
using StretchMask = std::uint64_t;
constexpr StretchMask all_stretches(std::size_t count) {
  return count >= kMostStretches ? ~StretchMask{0} : (StretchMask{1} << count) - 1;
}

struct StreamPiece {
  ChunkRange range;
  Bytes bytes;
  bool in_hbm = false;  // in the layout, all through the iteration
  bool may_move = true;
  std::uint32_t least_lead = 1;  // stretches before its use in which it comes in, at least, if there are so many
  std::array<float, kMostStretches> seconds{};  // what its uses would cost in place, by stretch
};

// A stretch as it is in the layout, in seconds.
struct Stretch {
  double compute = 0;  // of its launches, were everything in HBM
  double link = 0;     // for what its launches use in place
  double stall = 0;    // of that, what their compute does not hide
};

struct StreamSchedule {
  std::vector<StretchMask> in_hbm;  // by piece: when it is in HBM, or on its way
  double seconds_before = 0;        // of an iteration, as it is estimated without streaming
  double seconds_after = 0;         // and with it
  Bytes moved;                      // in an iteration, both ways
  std::uint32_t turns = 0;          // pieces that come in for a part of it
};

// `room`: bytes that may come in before anything leaves.
StreamSchedule plan_streaming(std::span<const StreamPiece> pieces, std::span<const Stretch> stretches, Bytes room,
                              const CostTable& costs);

}  // namespace spillway::policy
