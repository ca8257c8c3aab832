#include "policy/replay.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <unordered_map>
#include <utility>

#include "policy/allocation_lives.hpp"
#include "policy/card.hpp"
#include "policy/measured_uses.hpp"
#include "policy/possible_events.hpp"
#include "policy/queue_depth.hpp"

namespace spillway::policy {
namespace {

// Seconds between two calls above which the program is taken to wait for the device.
constexpr double kLongestPause = 50e-6;

std::uint64_t elapsed(Nanoseconds from, Nanoseconds to) {
  return static_cast<std::uint64_t>(to.count()) - static_cast<std::uint64_t>(from.count());
}
bool is_graph(LaunchShapeId shape) { return (shape.value & kGraphShapeBit) != 0; }
GraphId graph_of(LaunchShapeId shape) { return {shape.value & ~kGraphShapeBit}; }

Nanoseconds nanoseconds(Seconds time) {
  constexpr double kLatest = 9e18;
  return Nanoseconds(static_cast<std::int64_t>(std::min(time.count() * 1e9, kLatest)));
}

class Run {
 public:
  Run(const PolicyFile& policy, const ShapeCosts& shapes, const CostTable& costs, const ReplayOptions& options)
      : options_(options),
        shapes_(shapes),
        costs_(costs),
        engine_(policy.settings, policy.rules, costs),
        model_(costs, {[this](LaunchNumber launch) { return load(launch); },
                       [this](DecisionId id, Seconds at) { finished(id, at); },
                       [this](LaunchNumber launch, Seconds at) { passed(launch, at); }}),
        measured_(options.measure_after, shapes, costs) {}

  void take(const Event& event);
  ReplayResult result();

 private:
  struct CachedLoad {
    std::uint64_t version = 0;
    LaunchLoad load;
  };

  void tell(EventBody body);
  void tell_times();
  void apply(std::vector<Decision>& decisions);
  void move(const Decision& decision, const MoveRange& range);
  void finished(DecisionId id, Seconds at);
  void passed(LaunchNumber launch, Seconds at);
  void finish_event(DecisionId id, MoveOutcome outcome);
  LaunchLoad load(LaunchNumber launch);
  LaunchLoad load(LaunchShapeId shape);
  LaunchLoad load_of(LaunchShapeId shape);
  void launched(LaunchShapeId shape, const EventBody& body);
  void settle(const AllocationSettled& event);
  void cancel(AllocationId allocation);
  [[nodiscard]] ReplayFigures figures() const;
  [[nodiscard]] std::uint64_t launches() const { return launches_.size() - 1; }
  [[nodiscard]] std::vector<LaunchShapeId> parts(LaunchShapeId shape) const;

  ReplayOptions options_;
  const ShapeCosts& shapes_;
  CostTable costs_;
  Engine engine_;
  DeviceModel model_;
  Card card_;
  PossibleEvents possible_;
  Seconds cpu_;  // when the program makes its next call
  Seconds now_;  // of what is being told: cpu_, or when a move ended
  std::optional<Nanoseconds> last_event_;
  std::vector<LaunchShapeId> launches_{{}};  // by launch number; graphs by their number with the top bit set
  std::unordered_map<GraphId, std::vector<LaunchShapeId>> graphs_;
  std::unordered_map<LaunchShapeId, CachedLoad> loads_;
  std::unordered_map<DecisionId, MoveRange> open_;
  std::uint64_t mark_every_ = 0;    // launches; 0: no marks are wanted
  std::uint64_t marked_ = 0;        // the latest launch that has one
  std::vector<KernelTimed> times_;  // that are not told yet
  std::unordered_map<AllocationId, Backing> backing_;
  std::set<AllocationId> refused_;
  std::set<AllocationId> stretchable_;  // by kind
  std::set<AllocationId> on_host_;      // of those, the ones that were put on the host for good
  AllocationLives lives_;
  MeasuredUses measured_;
  Bytes total_;  // of the card
  ReplayFigures at_mark_;
  ReplayResult result_;
};

void Run::take(const Event& event) {
  if (!possible_.possible(event)) return;
  if (std::holds_alternative<MoveFinished>(event.body) || std::holds_alternative<MarkPassed>(event.body) ||
      std::holds_alternative<PagesObserved>(event.body) || std::holds_alternative<KernelTimed>(event.body) ||
      std::holds_alternative<TelemetryChanged>(event.body)) {
    return;
  }
  if (last_event_ && event.time > *last_event_) {
    const double pause = static_cast<double>(elapsed(*last_event_, event.time)) * 1e-9;
    cpu_ += Seconds(std::min(pause, kLongestPause));
    // A long pause is a program that waits for its device: how long depends on the device, not on the recorded run.
    if (pause > kLongestPause)
      cpu_ = std::max(cpu_, model_.wait_for_queue(0, cpu_)), cpu_ = std::max(cpu_, model_.launches_end());
  }
  last_event_ = event.time;
  model_.advance(cpu_);
  cpu_ = std::max(cpu_, model_.wait_for_queue(kQueueDepth, cpu_));
  now_ = cpu_;
  tell_times();
  if (const auto* settled = std::get_if<AllocationSettled>(&event.body)) {
    settle(*settled);
  } else if (const auto* launch = std::get_if<Launched>(&event.body)) {
    launched(launch->shape, event.body);
  } else if (const auto* graph = std::get_if<GraphLaunched>(&event.body)) {
    launched({graph->graph.value | kGraphShapeBit}, event.body);
  } else if (const auto* freed = std::get_if<Freed>(&event.body)) {
    if (refused_.contains(freed->allocation)) return;
    // The driver waits for the device before memory goes.
    cpu_ = std::max(cpu_, model_.wait_for_queue(0, cpu_));
    now_ = cpu_;
    if (freed->result.ok()) {
      lives_.freed(freed->allocation, launches(), card_);
      card_.free(freed->allocation);
    }
    tell(event.body);
  } else if (const auto* mapped = std::get_if<Mapped>(&event.body)) {
    if (refused_.contains(mapped->allocation)) return;
    card_.map(mapped->allocation, mapped->address);
    tell(event.body);
  } else if (const auto* seen = std::get_if<GraphSeen>(&event.body)) {
    graphs_[seen->graph] = seen->shapes;
    tell(event.body);
  } else {
    const auto* going = std::get_if<FreeRequested>(&event.body);
    if (const auto* asked = std::get_if<AllocationRequested>(&event.body)) {
      lives_.requested(asked->allocation, launches());
      if (asked->kind == AllocationKind::stretchable) stretchable_.insert(asked->allocation);
    }
    if (const auto* device = std::get_if<DeviceSeen>(&event.body); device != nullptr && device->device.value == 0)
      total_ = device->total;
    if (going != nullptr && refused_.contains(going->allocation)) return;
    if (going != nullptr && options_.keep == ReplayOptions::Keep::decisions) {
      // Before the engine forgets it, and not of everything: asking takes long.
      if (auto* life = lives_.long_one(going->allocation, launches())) life->found = engine_.found(going->allocation);
    }
    tell(event.body);
  }
}

void Run::tell(EventBody body) {
  std::vector<Decision> decisions;
  engine_.process({nanoseconds(now_), std::move(body)}, decisions);
  apply(decisions);
  if (options_.check == ReplayOptions::Check::no || !result_.broken.empty()) return;
  result_.broken = engine_.check_invariants();
  const DeviceTotals totals = engine_.totals({0});
  if (card_.resident() > totals.resident + totals.arriving) result_.broken = "the card holds more than the books say";
}

// A share of the kernels is timed, as telemetry does, spread evenly: of those that found all they use in HBM. What the
// others' times would tell is what the model makes them of.
LaunchLoad Run::load(LaunchNumber launch) {
  const LaunchLoad load = this->load(launches_[launch.value]);
  constexpr std::uint64_t kGoldenPart = 0x9E3779B97F4A7C15ULL;
  const double place = static_cast<double>(launch.value * kGoldenPart) / 0x1p64;
  const bool resident = load.remote_read + load.remote_write + load.faulted + load.first_touched == 0;
  if (resident && place * 100 < engine_.settings().telemetry_sample)
    times_.push_back({launch, {}, nanoseconds(Seconds(load.compute_seconds))});
  return load;
}

void Run::tell_times() {
  std::vector<KernelTimed> times;
  times.swap(times_);
  for (const KernelTimed& timed : times) tell(timed);
}

void Run::apply(std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) {
    if (const auto* back = std::get_if<BackAllocation>(&decision.body)) {
      backing_[back->allocation] = back->backing;
      if (back->backing == Backing::managed && stretchable_.contains(back->allocation))
        on_host_.insert(back->allocation);
    } else if (const auto* refuse = std::get_if<RefuseAllocation>(&decision.body)) {
      refused_.insert(refuse->allocation);
      ++result_.refused;
      result_.out_of_memory += decision.cause.reason == Reason::oom_first ? 0U : 1U;
    } else if (const auto* advise = std::get_if<AdviseRange>(&decision.body)) {
      card_.advise(*advise);
    } else if (const auto* range = std::get_if<MoveRange>(&decision.body)) {
      move(decision, *range);
    } else if (const auto* dropped = std::get_if<CancelMoves>(&decision.body)) {
      cancel(dropped->allocation);
    } else if (const auto* mark = std::get_if<MarkProgress>(&decision.body)) {
      mark_every_ = mark->every;
    } else if (const auto* note = std::get_if<Note>(&decision.body)) {
      result_.notes.push_back(note->text);
      constexpr std::string_view kFound = "an iteration of ";
      if (note->text.starts_with(kFound))
        result_.iteration = std::strtoull(note->text.c_str() + kFound.size(), nullptr, 10);
    }
    if (options_.keep == ReplayOptions::Keep::decisions) result_.decisions.push_back(decision);
  }
}

void Run::move(const Decision& decision, const MoveRange& range) {
  ++result_.moves;
  if (decision.cause.reason == Reason::turn) lives_.takes_turns(range.allocation);
  open_[decision.id] = range;
  model_.move(card_.job(decision.id, range), now_);
  if (range.urgency != Urgency::blocking) return;
  cpu_ = std::max(cpu_, model_.wait_for_move(decision.id, now_));
  now_ = cpu_;
}

void Run::finished(DecisionId id, Seconds at) {
  const auto range = open_.find(id);
  if (range == open_.end()) return;
  card_.carried_out(range->second);
  open_.erase(range);
  const Seconds before = now_;
  now_ = at;  // what follows from it is issued then, not at the program's next call
  finish_event(id, MoveOutcome::done);
  now_ = before;
}

void Run::passed(LaunchNumber launch, Seconds at) {
  const Seconds before = now_;
  now_ = at;
  tell(MarkPassed{launch, {}});
  now_ = before;
}

void Run::finish_event(DecisionId id, MoveOutcome outcome) { tell(MoveFinished{id, outcome, {}, {}}); }

void Run::cancel(AllocationId allocation) {
  std::vector<DecisionId> dropped;
  for (const auto& [id, range] : open_) {
    if (range.allocation == allocation && model_.cancel(id)) dropped.push_back(id);
  }
  std::sort(dropped.begin(), dropped.end());
  for (const DecisionId id : dropped) {
    open_.erase(id);
    finish_event(id, MoveOutcome::cancelled);
  }
}

void Run::settle(const AllocationSettled& event) {
  if (refused_.contains(event.allocation)) return;
  AllocationSettled settled = event;
  const auto backing = backing_.find(event.allocation);
  if (backing != backing_.end()) settled.backing = backing->second;
  if (settled.result.ok() && on_host_.contains(event.allocation)) {
    card_.allocate_on_host(settled.allocation, settled.bytes);
  } else if (settled.result.ok()) {
    card_.allocate(settled.allocation, settled.address, settled.bytes, settled.backing);
  }
  tell(settled);
  result_.plain_peak = std::max(result_.plain_peak, engine_.totals({0}).plain);
}

void Run::launched(LaunchShapeId shape, const EventBody& body) {
  launches_.push_back(shape);
  const LaunchNumber number{launches()};
  tell(body);
  model_.launch(number, cpu_);
  if (mark_every_ > 0 && number.value - marked_ >= mark_every_) {
    marked_ = number.value;
    model_.mark(number, cpu_);
  }
  if (options_.bounds == ReplayOptions::WithBounds::yes && number > options_.measure_after)
    measured_.note(number, parts(shape), card_, engine_.totals({0}).window);
  if (number == options_.measure_after) {
    cpu_ = std::max(cpu_, model_.wait_for_queue(0, cpu_));
    at_mark_ = figures();
  }
}

LaunchLoad Run::load(LaunchShapeId shape) {
  if (const CachedLoad& cached = loads_[shape]; cached.version == card_.version()) return cached.load;
  const LaunchLoad load = load_of(shape);
  // What came in by faults is paid once; what is left is asked again.
  loads_[shape] = {load.faulted + load.first_touched > 0 ? 0 : card_.version(), load};
  return load;
}

LaunchLoad Run::load_of(LaunchShapeId shape) {
  if (!is_graph(shape)) {
    const auto cost = shapes_.find(shape);
    return cost == shapes_.end() ? LaunchLoad{} : card_.load(cost->second);
  }
  LaunchLoad sum;
  for (const LaunchShapeId part : graphs_[graph_of(shape)]) {
    const LaunchLoad load = this->load(part);
    sum.compute_seconds += load.compute_seconds;
    sum.remote_read += load.remote_read;
    sum.remote_write += load.remote_write;
    sum.faulted += load.faulted;
    sum.first_touched += load.first_touched;
  }
  return sum;
}

ReplayFigures Run::figures() const {
  ReplayFigures now;
  now.model = model_.totals();
  now.seconds = std::max(cpu_, model_.launches_end()).count();
  now.refetched = card_.refetched();
  now.useless = card_.useless();
  now.launches = launches();
  return now;
}

// The kernels of a launch.
std::vector<LaunchShapeId> Run::parts(LaunchShapeId shape) const {
  if (!is_graph(shape)) return {shape};
  const auto graph = graphs_.find(graph_of(shape));
  return graph == graphs_.end() ? std::vector<LaunchShapeId>{} : graph->second;
}

ReplayResult Run::result() {
  const Seconds end = model_.finish();
  cpu_ = std::max(cpu_, end);
  result_.all = figures();
  result_.measured = result_.all;
  ReplayFigures& m = result_.measured;
  const ReplayFigures& b = at_mark_;
  m.seconds -= b.seconds;
  m.launches -= b.launches;
  m.refetched -= b.refetched;
  m.useless -= b.useless;
  m.model.busy_seconds -= b.model.busy_seconds;
  m.model.compute_seconds -= b.model.compute_seconds;
  m.model.stall_seconds -= b.model.stall_seconds;
  m.model.moved_in -= b.model.moved_in;
  m.model.moved_out -= b.model.moved_out;
  m.model.remote_read -= b.model.remote_read;
  m.model.remote_write -= b.model.remote_write;
  m.model.faulted -= b.model.faulted;
  result_.placements = lives_.placements(card_);
  if (options_.keep == ReplayOptions::Keep::decisions) {
    for (FinalPlacement& where : result_.placements) where.found = engine_.found(where.allocation);
  }
  result_.freed = lives_.freed_after_half(launches());
  result_.impossible = possible_.impossible();
  result_.totals = engine_.totals({0});
  result_.window = options_.bounds == ReplayOptions::WithBounds::yes ? measured_.window() : result_.totals.window;
  const Settings& settings = engine_.settings();
  const bool whole_card = settings.mode == ModeName::off && !settings.device_budget;
  result_.budget = whole_card ? total_ : result_.totals.budget;
  result_.asked_budget = settings.device_budget ? settings.device_budget->of(total_) : result_.budget;
  result_.resident_peak = card_.resident_peak();
  if (options_.bounds == ReplayOptions::WithBounds::yes) result_.bounds = measured_.bounds(lives_, launches());
  return std::move(result_);
}

}  // namespace

ReplayResult replay(std::span<const Event> events, const PolicyFile& policy, const ShapeCosts& shapes,
                    const CostTable& costs, const ReplayOptions& options) {
  Run run(policy, shapes, costs, options);
  for (const Event& event : events) run.take(event);
  return run.result();
}

}  // namespace spillway::policy
