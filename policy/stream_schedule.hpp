// Streaming ahead of use: which pieces of memory take turns in HBM within one iteration, and what comes of it.
//
// An iteration that repeats is cut into stretches. Where the planner's layout leaves a piece on the host which one part
// of the iteration uses many times, it may come in before that part, in the room of one that nothing uses meanwhile
// (policy/turn_chooser.hpp). Who takes part is decided here, and what an iteration would then take is found by doing
// it: some iterations are run on the device model, by the same choices, with what is left in place and what moves in
// each other's way. What is worth coming in for is tried at some prices: where moves crawl, only uses that cross many
// times are worth them.
//
// Cost: of the pieces that could come in and those that could leave, so many each; 0.2 s at most, for any size of
// memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/residency.hpp"
#include "policy/turn_chooser.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

struct StreamPiece {
  ChunkRange range;
  Bytes bytes;
  bool in_hbm = false;  // in the layout, all through the iteration
  bool may_move = true;
  std::uint32_t least_lead = 1;                 // stretches before its use by which it is there, at least
  std::array<float, kMostStretches> seconds{};  // what its uses would cost in place, by stretch
};

// A stretch as it is in the layout, in seconds.
struct Stretch {
  double compute = 0;  // of its launches, were everything in HBM
  double link = 0;     // for what its launches use in place
  double stall = 0;    // of that, what their compute does not hide
};

struct StreamSchedule {
  std::vector<TurnPiece> pieces;  // all; with no turns they stay where they are
  std::vector<double> seconds;    // of the stretches, in the layout
  Bytes limit;                    // what those that take turns may hold together
  double seconds_before = 0;      // of an iteration, as it is estimated without streaming
  double seconds_after = 0;       // and with it
  Bytes moved;                    // in an iteration, both ways
  std::uint32_t turns = 0;        // pieces that come in, in an iteration
};

// `room`: bytes that may come in before anything leaves.
StreamSchedule plan_streaming(std::span<const StreamPiece> pieces, std::span<const Stretch> stretches, Bytes room,
                              const CostTable& costs);

}  // namespace spillway::policy
