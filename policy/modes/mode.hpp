// A mode: one way to decide what lives where. The engine owns the books (allocations, residency, budgets) and calls the
// mode; the mode reads the books and emits through DecisionWriter, which refuses whatever would break a promise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/allocation_map.hpp"
#include "policy/cost_table.hpp"
#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/forecast.hpp"
#include "policy/residency.hpp"
#include "policy/settings.hpp"
#include "policy/use_found.hpp"

namespace spillway::policy {

// The books a mode may read.
struct Books {
  const Settings& settings;
  AllocationMap& allocations;
  Residency& residency;
  // Bytes that may still come into HBM on this device: window - resident - arriving - promised.
  std::function<Bytes(DeviceIndex)> room;
  std::function<Bytes()> host_room;  // host memory that may still be filled
  const RuleMatcher& rules;
  const CostTable& costs;  // of this machine
};

// The only way to decide anything after an allocation's backing. Every promise about moves is kept here, once.
class DecisionWriter {
 public:
  explicit DecisionWriter(const Books& books) : books_(books) {}
  void into(std::vector<Decision>* out) { out_ = out; }

  // Nothing if the range is dying, moving, outside, or there is no room (HBM or host) for it.
  std::optional<DecisionId> move(const ChunkRange& range, Placement to, Urgency urgency, LaunchNumber after,
                                 LaunchNumber before, const Cause& cause);
  bool advise(const ChunkRange& range, Advice advice, const Cause& cause);
  void note(AllocationId allocation, Bytes offset, Bytes bytes, std::string text, const Cause& cause);
  DecisionId emit(DecisionBody body, const Cause& cause);

 private:
  const Books& books_;
  std::vector<Decision>* out_ = nullptr;
  DecisionId last_;
};

// One pointer of a launch, copy or fill, resolved to what it names.
struct Touch {
  AllocationId allocation;
  Bytes offset;
  Bytes bytes;                 // what it is taken to cover
  std::uint16_t argument = 0;  // parameter number in a launch
  bool managed = false;
};

enum class TouchSource : std::uint8_t { launch, copy, fill };

// A kernel of a graph that is launched, and its share of the launch's touches, which lie in the order of the kernels.
struct GraphKernel {
  LaunchShapeId shape;
  FunctionId function;
  std::uint64_t threads = 0;
  std::uint32_t touches = 0;
};

struct Use {
  TouchSource source = TouchSource::launch;
  LaunchNumber launch;  // its own number for a launch; the last launch's for copies and fills
  LaunchShapeId shape;  // launches only
  FunctionId function;  // launches only
  std::uint64_t threads = 0;
  StreamId stream;
  Nanoseconds time;
  std::span<const Touch> touches;
  std::span<const GraphKernel> kernels = {};  // graph launches only
};

class Mode {
 public:
  Mode(Books& books, DecisionWriter& writer) : books_(books), writer_(writer) {}
  virtual ~Mode() = default;
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

  // Managed memory without AccessedBy and population: pages come by faults.
  [[nodiscard]] virtual bool raw() const { return false; }
  // How many leading bytes of a new managed allocation shall be populated in HBM, at most `room`; the rest goes to the
  // host. `cause` is filled in.
  virtual Bytes first_in_hbm(const Allocation& allocation, Bytes room, Cause& cause) = 0;
  // Whether others shall leave HBM for a new managed allocation, `missing` of which does not fit.
  virtual bool displaces(const Allocation& allocation, Bytes missing) {
    (void)allocation, (void)missing;
    return false;
  }
  virtual void settled(const Allocation& allocation) = 0;
  virtual void used(const Use& use) = 0;
  virtual void freeing(const Allocation& allocation) { (void)allocation; }
  virtual void moved(const FinishedMove& move, MoveOutcome outcome, Nanoseconds now) {
    (void)move, (void)outcome, (void)now;
  }
  // Everything else a mode may learn from: functions, shapes, telemetry, time.
  virtual void heard(const Event& event) { (void)event; }
  // As Engine's.
  [[nodiscard]] virtual std::string check_invariants() const { return {}; }
  // Launches of the iteration that was found; zero if there is none.
  [[nodiscard]] virtual LaunchCount iteration() const { return {}; }
  [[nodiscard]] virtual IterationProgress progress() const { return {}; }
  // Whether it has a use for PageTraffic::remote_map.
  [[nodiscard]] virtual bool wants_page_hits() const { return false; }
  // Of live memory. Looks at the whole latest profile.
  [[nodiscard]] virtual UseFound found(AllocationId allocation) const {
    (void)allocation;
    return UseFound::nothing;
  }
  // Other memory needs `bytes` of what managed pages hold on this device: send at least that much out, blocking. What a
  // rule keeps in HBM leaves last, and for plain memory only.
  enum class RoomFor : std::uint8_t { plain, managed };
  virtual void make_room(DeviceIndex device, Bytes bytes, RoomFor what) = 0;

 protected:
  Books& books_;
  DecisionWriter& writer_;
};

std::unique_ptr<Mode> make_mode(Books& books, DecisionWriter& writer);

}  // namespace spillway::policy
