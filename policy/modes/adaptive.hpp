// Learns what the program does and places memory by what it is worth. Until something is learned it is `arrival`; while
// everything fits it only watches.
//
// Once an iteration is known, a plan is made at its end: pieces that earn HBM least are exchanged for those that would
// earn most, least loss first, in calls of up to 32 MiB, a bounded number at a time. The default for what does not earn
// HBM is to be read and written in place.
//
// Cost: a launch seen before is one array look-up and one step of the forecast; plans cost milliseconds, once an
// iteration.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/access_history.hpp"
#include "policy/chunk_needs.hpp"
#include "policy/classes.hpp"
#include "policy/cost_table.hpp"
#include "policy/crossings.hpp"
#include "policy/forecast.hpp"
#include "policy/iteration_profile.hpp"
#include "policy/launch_book.hpp"
#include "policy/modes/arrival.hpp"
#include "policy/modes/pace.hpp"
#include "policy/modes/sparse_ranges.hpp"
#include "policy/modes/streaming.hpp"
#include "policy/pieces.hpp"
#include "policy/planner.hpp"
#include "policy/span_map.hpp"
#include "policy/stream_needs.hpp"
#include "policy/stream_schedule.hpp"
#include "policy/watchdog.hpp"

namespace spillway::policy {

class Adaptive : public Arrival {
 public:
  Adaptive(Books& books, DecisionWriter& writer);

  // A small one, and the first larger ones: activations and workspaces come after the weights, and on the host a few
  // KiB of them make a matrix product hundreds of times slower (docs/driver_facts.md, "Moving pages").
  bool displaces(const Allocation& allocation, Bytes missing) override;
  void settled(const Allocation& allocation) override;
  void used(const Use& use) override;
  void freeing(const Allocation& allocation) override;
  void moved(const FinishedMove& move, MoveOutcome outcome, Nanoseconds now) override;
  void heard(const Event& event) override;
  [[nodiscard]] std::string check_invariants() const override;
  // Least worth first, once something is known.
  void make_room(DeviceIndex device, Bytes bytes, RoomFor what) override;

  [[nodiscard]] LaunchCount iteration() const override { return forecast_.period(); }
  [[nodiscard]] IterationProgress progress() const override { return progress_; }
  [[nodiscard]] bool wants_page_hits() const override { return sparse_.wants_page_hits(); }
  [[nodiscard]] UseFound found(AllocationId allocation) const override;
  [[nodiscard]] const Forecast& forecast() const { return forecast_; }
  [[nodiscard]] const Classes& classes() const { return classes_; }

 protected:
  [[nodiscard]] bool kept(const Allocation& allocation) const override;

 private:
  // Rounds from one plan to the next, once the layout is settled. Where streaming would have to be interrupted, for
  // each time that it has begun twice as many, up to a limit: at first little is known.
  static constexpr std::uint64_t kSettledEvery = 16;
  static constexpr std::uint64_t kStreamingEvery = 32;
  static constexpr std::uint32_t kStreamingLongest = 5;  // times twice

  struct PlannedMove {
    ChunkRange range;
    Placement to = Placement::host;
    Cause cause;
  };

  // An allocation that was freed within an iteration of its making; others of its size are taken to be like it.
  void learn_transient(const Allocation& allocation);
  [[nodiscard]] bool spilling() const;
  void launched(const Use& use);
  void learn_kernel(LaunchShapeId shape, FunctionId function, std::uint64_t threads, std::span<const Touch> touches);
  LaunchShapeId learn_graph(const Use& use);
  void learn_copy(const Use& use);
  // A kernel's time tells something if all it touches has stayed where it is since the launch.
  void learn_time(const KernelTimed& timed);
  // The candidate is an iteration if both its periods use the same memory.
  void judge_candidate(Nanoseconds now);
  // Where the pace is wanted and launches do not tell it yet.
  void ask_for_marks();
  // The device took so long for a round.
  void judge(Nanoseconds took);
  void end_of_round();
  [[nodiscard]] std::uint64_t weight(LaunchNumber last, LaunchCount period) const;
  [[nodiscard]] LaunchCount round() const;  // the iterations that are planned for at once
  [[nodiscard]] std::uint64_t iterations_known(LaunchCount length) const;
  void learn_latest(LaunchCount length);
  void profile_latest(LaunchCount length);
  // After each launch: tells the sparse ranges that a round is over.
  void round_of_sparse_ranges(const Use& use);
  void plan(LaunchNumber launch);
  void plan_device(DeviceIndex device, LaunchNumber launch);
  [[nodiscard]] Exchange exchange_of(DeviceIndex device, std::vector<Piece>& pieces) const;
  [[nodiscard]] Bytes transient_in_hbm(DeviceIndex device) const;
  void match_rules();
  void take_back();
  // After taking back: did it help? If not, the change was not to blame.
  void judge_taking_back();
  // Opens planned moves as far as the room and the number of open ones allow.
  void pump();
  [[nodiscard]] std::size_t open_to(Placement to) const;
  void note_classes();
  // Once a layout is settled: is there more to win by taking turns?
  // `left`: seconds of an iteration that a plan would save beside.
  void consider_streaming(std::uint64_t rounds, double left = 0);
  // Before any plan: where the layout is as good as a plan would make it, but for little.
  void stream_at_once();
  void begin_streaming(DeviceIndex device, const StreamNeeds& needs, std::span<const LaunchTime> launches,
                       const std::vector<std::uint32_t>& starts, LaunchCount length);
  std::vector<StreamPiece> stream_pieces(DeviceIndex device, const StreamNeeds& needs,
                                         std::uint64_t launches_a_stretch);
  void follow_schedule(LaunchNumber launch);
  void turn(const Streaming::Turns& turns, Reason reason);
  void device_passed(const MarkPassed& mark, Nanoseconds now);
  // Everything goes back to where the layout has it.
  void end_streaming();
  void give_up_streaming();
  // `left_out_` counts what was moving.
  [[nodiscard]] std::vector<Piece> pieces_of(DeviceIndex device);

  SpanMap spans_;
  LaunchBook book_;
  FunctionBook functions_;
  Forecast forecast_;
  IterationProfile profile_;
  AccessHistory history_;
  ChunkNeeds needs_;
  Classes classes_;
  const CostTable& costs_;
  LearnedCrossings crossings_;
  SparseRanges sparse_;
  Streaming streaming_;
  std::uint64_t stream_after_ = 0;  // rounds, before which it is not considered
  std::uint32_t streamed_ = 0;      // times, of this iteration
  std::uint32_t stream_looks_ = 0;  // since the layout was changed last
  std::uint32_t stream_failures_ = 0;
  std::uint64_t streams_since_ = 0;                                          // iterations
  std::unordered_map<AllocationId, std::vector<std::uint64_t>> last_moved_;  // launches when a chunk's move ended
  Watchdog watchdog_;
  Pace pace_;
  IterationProgress progress_;
  std::vector<Pin> pins_;  // by span id, of the policy file's rules

  struct Birth {
    std::uint64_t launch = 0;
    bool transient = false;  // counted in `transient_live_`
  };
  std::unordered_map<AllocationId, Birth> births_;
  std::unordered_map<std::uint64_t, std::uint64_t> transient_sizes_;  // bytes -> how often seen
  Bytes transient_live_;
  Bytes transient_peak_;  // since the last plan but one
  Bytes transient_peak_before_;

  std::vector<DeviceIndex> devices_;
  std::vector<NamedPointer> pointers_;      // scratch of used()
  std::vector<SpanId> touched_;             // scratch
  std::vector<LaunchShapeId> kernels_;      // scratch of learn_graph()
  std::map<DeviceIndex, Bytes> displaced_;  // by what was not small
  Epoch epoch_{1};                          // counts rounds, and stretches that were planned for
  bool replan_ = true;
  bool changed_ = true;              // the last plan moved something: the next may have more
  std::optional<Nanoseconds> slow_;  // iteration time that made us take a change back
  std::uint32_t left_out_ = 0;
  std::uint64_t planned_at_ = 0;  // launch of the last plan
  std::uint64_t planned_rounds_ = 0;
  std::uint64_t iterations_in_round_ = 1;
  std::uint64_t weight_ = 0;  // of all launches; a graph's counts for many
  std::string noted_classes_;
  std::deque<PlannedMove> out_;
  std::deque<PlannedMove> in_;
  std::vector<PlannedMove> last_change_;  // as carried out, to be taken back
  std::vector<PlannedMove> open_;         // our moves under way; populations are not among them
  std::uint32_t hold_ = 0;                // iterations without a plan, after one was taken back
  std::uint32_t taken_back_ = 0;
};

}  // namespace spillway::policy
