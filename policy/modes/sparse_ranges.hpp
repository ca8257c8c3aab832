// Places what is used sparsely (policy/heat.hpp says what that is): blocks on the host whose probe was used come into
// HBM with the room there is, else in exchange for those of the same kind that have been there longest. Those in HBM
// tell nothing, so they get a second chance: one that goes out leaves a probe behind, which costs nothing to set on the
// way; if that is used soon, it was a mistake, the block comes back and is left alone for longer each time.
//
// Bounded: an exchange is made only if what it saves, while the block stays hot for as long again as it has been,
// and an epoch more, exceeds what it costs; the chance that what leaves is hot as well counts against it, and is
// learned from mistakes. At most an eighth of the window moves at a time. If epochs get slower than they were without,
// probes are unset for a while to see whether it was them, and for long if it was.
//
// Nothing is probed before telemetry watches pages (TelemetryState::pages_watched), and everything is mapped again as
// soon as it does not. Owner: Adaptive, which tells it everything.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/heat.hpp"
#include "policy/modes/mode.hpp"

namespace spillway::policy {

class SparseRanges {
 public:
  // Chance that what goes out is hot, as long as nothing is known.
  static constexpr double kMistaken = 0.25;

  SparseRanges(Books& books, DecisionWriter& writer, const CostTable& costs)
      : books_(books), writer_(writer), costs_(costs) {}

  // Telemetry is there, so that it could be asked to watch pages.
  [[nodiscard]] bool possible() const { return books_.settings.probes == Switch::automatic && telemetry_; }
  // Telemetry shall watch pages.
  [[nodiscard]] bool wants_page_hits() const { return possible() && heat_.worth_watching(); }
  [[nodiscard]] bool profiled() const { return profiled_; }
  [[nodiscard]] bool moving() const { return !open_.empty(); }
  [[nodiscard]] const Heat& heat() const { return heat_; }

  void heard(const Event& event);
  // The sparse ranges of the latest profile, and how many launches that has.
  void profile(std::span<const SparseRange> ranges, LaunchCount length);
  // Some iterations (or launches, where there are none) have passed. `held`: somebody else's change is being judged.
  enum class Changes : std::uint8_t { allowed, held };
  void round(Nanoseconds now, LaunchNumber launch, Changes changes);
  void moved(const FinishedMove& move, MoveOutcome outcome);
  void freeing(AllocationId allocation);
  // Somebody brings this in: its probes are mapped, so that it is when it leaves again.
  void coming_in(const ChunkRange& range, const Cause& cause);

 private:
  using Key = Heat::Blocks::key_type;
  struct Stay {
    std::uint32_t came = 0;  // epoch in which it came into HBM
    std::uint32_t left = 0;  // epoch in which it was sent out for others; 0: it was not, or that was right
    std::uint32_t mistakes = 0;
  };
  struct Planned {
    ChunkRange range;
    Cause cause;
    double gain = 0;  // seconds
  };

  void page_hit(const PagesObserved& pages);
  void blind();
  void map(const std::vector<ChunkRange>& chunks, Reason reason);
  void end_of_epoch(Nanoseconds now, Changes changes);
  [[nodiscard]] bool acts(Changes changes) const;
  void note_density();
  // False if iterations are slower than they were without us: probes are unset to see whether it was them.
  bool judge(double seconds_a_launch);
  void end_trial();
  void judge_mistakes();
  void exchange();
  [[nodiscard]] std::vector<Planned> wanted() const;
  [[nodiscard]] std::vector<const HeatBlock*> victims(DeviceIndex device) const;
  void send_out(const HeatBlock& block);
  void pump();
  [[nodiscard]] std::size_t open_to(Placement to) const;
  [[nodiscard]] Cause cause_of(const HeatBlock& block, Reason reason) const;

  Books& books_;
  DecisionWriter& writer_;
  const CostTable& costs_;
  Heat heat_;
  bool telemetry_ = false;
  bool watched_ = false;
  bool profiled_ = false;
  bool news_ = false;  // a probe was used since the last exchange
  std::map<Key, Stay> stays_;
  std::deque<Planned> in_;
  std::vector<std::pair<ChunkRange, Placement>> open_;  // our moves under way
  double mistaken_ = kMistaken;                         // chance that what goes out is hot
  double length_ = 0;                                   // launches of an iteration
  LaunchNumber launch_;
  LaunchNumber epoch_launch_;  // the last one before this epoch
  Nanoseconds epoch_began_;
  Nanoseconds last_round_;
  std::uint32_t rounds_ = 0;  // in this epoch
  double iterations_ = 0;     // in the last epoch
  // Of the watch over itself.
  double before_ = 0;         // seconds a launch took without probes
  std::uint32_t calm_ = 0;    // epochs without probes that were averaged
  bool acted_ = false;        // in this epoch: a probe was used, or something moved
  std::uint32_t slower_ = 0;  // epochs in a row
  std::uint32_t hold_ = 0;    // epochs without probes, after taking back
  std::uint32_t taken_back_ = 0;
  bool trial_ = false;
  double slow_ = 0;  // seconds a launch took when it was taken back
  std::map<std::uint64_t, Density> noted_;
};

}  // namespace spillway::policy
