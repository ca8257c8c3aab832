// Follows a schedule of turns (policy/stream_schedule.hpp): at the first launch of each stretch it asks to be told when
// the device gets there, and when it does, says what has to be in HBM from then on. A mark that comes late costs time,
// never room: nothing is decided before it.
//
// What is wanted is compared with where things are, so what a mark missed is made up for by the next one.
//
// Never slower: marks tell the pace of the device itself, however far the program is ahead. First they are asked for
// only to measure some iterations as they are; then turns are taken, and the same is measured again. Streaming that
// does not make them faster ends. Owner: Adaptive, whose queues carry the moves out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "policy/modes/mode.hpp"
#include "policy/stream_schedule.hpp"

namespace spillway::policy {

class Streaming {
 public:
  struct Piece {
    ChunkRange range;
    StretchMask in_hbm = 0;
    bool in_layout = false;  // in HBM, where it is not streamed
  };
  struct Plan {
    std::vector<Piece> pieces;          // those that take turns
    std::vector<std::uint32_t> starts;  // of the stretches: launches after the beginning
    LaunchCount length;                 // launches after which it begins again
    double seconds_before = 0;          // of that, as they are estimated
    double seconds_after = 0;
  };
  struct Turns {
    std::vector<ChunkRange> out;
    std::vector<ChunkRange> in;  // what is used first comes first
  };

  Streaming(Books& books, DecisionWriter& writer) : books_(books), writer_(writer) {}

  // The program makes launches, and the driver tells of them.
  [[nodiscard]] bool possible() const { return books_.settings.iteration_lookahead > 0 && !refused_; }
  [[nodiscard]] bool active() const { return !plan_.pieces.empty(); }
  // Turns have been measured, and do not help.
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] double seconds_without() const { return before_; }  // of a schedule, measured
  [[nodiscard]] double seconds_with() const { return after_; }
  // `launch`: the last one before the beginning.
  void begin(Plan plan, LaunchNumber launch);
  // A whole number of schedules lies behind it: launches more or less than forecast do not add up.
  void begins_again(LaunchNumber launch) { origin_ = launch; }
  [[nodiscard]] LaunchCount length() const { return plan_.length; }
  void launched(LaunchNumber launch);
  // What to do from now on, if this mark is one of ours.
  std::optional<Turns> passed(const MarkPassed& mark, Nanoseconds now);
  void freeing(AllocationId allocation);
  // Returns what brings everything back to where the layout has it.
  Turns end();

 private:
  [[nodiscard]] Turns turns(std::uint32_t stretch) const;
  [[nodiscard]] std::uint32_t next_use(const Piece& piece, std::uint32_t stretch) const;
  void add(const ChunkRange& range, bool wanted, Turns& turns) const;

  Books& books_;
  DecisionWriter& writer_;
  Plan plan_;
  StretchMask changes_ = 0;  // stretches in which something comes or goes
  LaunchNumber origin_;
  std::deque<std::pair<DecisionId, std::uint32_t>> marks_;  // with their stretches, in order
  bool refused_ = false;

  void begins(Nanoseconds now);
  bool running_ = false;  // else it is measured how it goes without
  bool failed_ = false;
  std::uint32_t begun_ = 0;  // schedules that count
  Nanoseconds began_;        // the first of them
  double before_ = 0;
  double after_ = 0;
};

}  // namespace spillway::policy
