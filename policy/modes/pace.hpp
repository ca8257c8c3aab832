// How long the device takes for a round of an iteration's launches.
//
// Launches are heard of when they are enqueued: until as many have come as a program can be ahead of its device, one
// that never waits shows its own pace. Until then marks tell (MarkPassed), about one a round: between two of them the
// device has done the launches that lie between. Afterwards the launches' own times do, which costs the program
// nothing; where there are no marks it is those alone. Owner: Adaptive.
#pragma once

#include <cstdint>
#include <optional>

#include "policy/modes/mode.hpp"

namespace spillway::policy {

class Pace {
 public:
  explicit Pace(DecisionWriter& writer) : writer_(writer) {}

  // Another iteration was found, with this launch. `launched`: all so far, a graph for as many as it stands for.
  void begin(LaunchNumber launch, Nanoseconds now, LaunchCount launched);
  // The program has enqueued a round. What a round took, if the launches tell.
  std::optional<Nanoseconds> enqueued(Nanoseconds now, LaunchCount launched);
  // And have done so for this many.
  [[nodiscard]] bool told_by_launches(LaunchCount launched, LaunchCount since = {}) const;
  // What a round of so many launches took shall be told by marks, until the launches do.
  void want_marks(LaunchCount round);
  // There is no iteration any more, or somebody else asks for them.
  void end_marks();
  // What a round took, if the marks tell.
  std::optional<Nanoseconds> passed(const MarkPassed& mark, Nanoseconds now);

 private:
  struct Passed {
    LaunchNumber launch;
    Nanoseconds at;
  };

  DecisionWriter& writer_;
  LaunchNumber found_;           // the launch with which the iteration was
  LaunchCount launched_before_;  // when it was found
  bool marks_are_over_ = false;  // the launches tell
  Nanoseconds round_began_;      // to be enqueued
  LaunchCount marked_;           // the round that marks are asked for; zero: none are
  std::optional<Passed> from_;   // the mark since which it is measured
};

}  // namespace spillway::policy
