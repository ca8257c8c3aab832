// Follows the device through an iteration whose pieces take turns in HBM (policy/stream_schedule.hpp): it asks to be
// told how far the device is, at several launches of each stretch, and when it has come to another one, or a move has
// ended, says what moves next (policy/turn_chooser.hpp). A mark that comes late costs time, never room: nothing is
// decided before it, and what is decided is compared with where things are.
//
// Never slower: marks tell the pace of the device itself, however far the program is ahead. First some iterations are
// measured as they are, by few marks; then turns are taken, and the same is measured again. Streaming that does not
// make them faster ends. Owner: Adaptive, whose queues carry the moves out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "policy/modes/mode.hpp"
#include "policy/turn_chooser.hpp"

namespace spillway::policy {

class Streaming {
 public:
  struct Piece {
    ChunkRange range;
    TurnPiece turns;
    bool in_layout = false;  // in HBM, where it is not streamed
  };
  struct Plan {
    std::vector<Piece> pieces;          // those that take turns
    std::vector<std::uint32_t> starts;  // of the stretches: launches after the beginning
    std::vector<double> seconds;        // of the stretches, as they are estimated
    LaunchCount length;                 // launches after which it begins again
    Bytes limit;                        // what the pieces may hold together
  };
  struct Turns {
    std::vector<ChunkRange> out;
    std::vector<ChunkRange> in;  // what is needed first comes first
  };

  Streaming(Books& books, DecisionWriter& writer) : books_(books), writer_(writer) {}

  // Nothing forbids it, and the driver has not refused to tell of launches.
  [[nodiscard]] bool possible() const { return books_.settings.iteration_lookahead > 0 && !refused_; }
  [[nodiscard]] bool active() const { return !plan_.pieces.empty(); }
  // It is measured how it goes without; turns are taken, and measured; they help, as was measured, or they do not.
  enum class Phase : std::uint8_t { measuring, taking_turns, kept, failed };
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] double seconds_without() const { return before_; }  // of a schedule, measured
  [[nodiscard]] double seconds_with() const { return after_; }
  // `launch`: the last one before the beginning.
  void begin(Plan plan, LaunchNumber launch);
  // From this launch on it begins again, so that launches more or less than forecast do not add up.
  void begins_again(LaunchNumber launch);
  [[nodiscard]] LaunchCount length() const { return plan_.length; }
  // What to do from now on, if the device has come to another stretch.
  std::optional<Turns> passed(const MarkPassed& mark, Nanoseconds now);
  // The same, if it was a turn that is done.
  std::optional<Turns> moved(const FinishedMove& move, MoveOutcome outcome, Nanoseconds now);
  void freeing(AllocationId allocation);
  // Returns what brings everything back to where the layout has it.
  Turns end();

 private:
  [[nodiscard]] bool taking_turns() const { return phase_ == Phase::taking_turns || phase_ == Phase::kept; }
  [[nodiscard]] TurnPlace place(const ChunkRange& range) const;
  Turns turns(Nanoseconds now);
  Turns back_to_layout();
  void ask(std::uint64_t every);
  void measure(LaunchNumber launch, Nanoseconds now);

  Books& books_;
  DecisionWriter& writer_;
  Plan plan_;
  TurnChooser chooser_;
  bool refused_ = false;
  std::deque<LaunchNumber> origins_;      // last launches before a beginning; the device may be behind the latest
  std::optional<std::uint32_t> stretch_;  // in which the device was last
  Phase phase_ = Phase::measuring;
  LaunchNumber measured_from_;
  LaunchNumber warm_;           // before it nothing is measured
  std::uint64_t measured_ = 0;  // schedules since then
  Nanoseconds began_;
  double before_ = 0;
  double after_ = 0;
};

}  // namespace spillway::policy
