#include "policy/engine.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "policy/allocation_map.hpp"
#include "policy/modes/mode.hpp"
#include "policy/residency.hpp"

namespace spillway::policy {
namespace {

// Below this the driver packs several allocations into one block, and spilling saves nothing.
constexpr Bytes kSmallest = kChunk;
// Plain growth sends managed pages out in batches: a call for each small allocation would be a call a microsecond. A
// 64th of the budget, within these.
constexpr Bytes kSmallestBatch = 2_MiB;
constexpr Bytes kLargestBatch = 32_MiB;
constexpr std::uint64_t kBatchShare = 64;
Bytes batch_of(Bytes budget) { return std::clamp(Bytes(budget.count() / kBatchShare), kSmallestBatch, kLargestBatch); }
// Of one graph launch; more are damage.
constexpr std::size_t kMostTouches = std::size_t{1} << 20;
constexpr Bytes kReserveCap = 1_GiB;
constexpr std::uint64_t kReserveShare = 32;

std::string telemetry_note(const TelemetryChanged& event) {
  const std::string detail = event.detail.empty() ? "" : " (" + event.detail + ")";
  switch (event.state) {
    case TelemetryState::running:
      return "kernel times and page traffic are sampled by CUPTI" + detail;
    case TelemetryState::absent:
      return "there is no CUPTI" + detail + ": kernel times and page traffic are not known";
    case TelemetryState::refused:
      return "CUPTI refused" + detail + ": kernel times and page traffic are not known";
    case TelemetryState::yielded:
      return "CUPTI is somebody else's" + detail + ": no kernel times until that ends";
    case TelemetryState::pages_watched:
    case TelemetryState::pages_lost:
    case TelemetryState::window_lost:
      break;
  }
  return "kernels of a sampled window could not be told apart" + detail + ": their times were thrown away";
}

}  // namespace

struct Engine::State {
  struct Device {
    Bytes total;
    Bytes budget;
    Bytes plain;
    Bytes plain_pending;    // backed as device, not settled yet
    Bytes managed_pending;  // promised a place in HBM, not settled yet
    bool full = false;      // the driver had none left for the latest map-style handle, whatever the budget says
    Bytes reserved;
    bool can_spill = false;
    bool expected_spill = false;
  };

  struct Shape {
    LaunchShapeSeen seen;
    std::uint64_t epoch = 0;
    std::vector<Touch> touches;
  };

  State(Settings given, std::vector<Rule> given_rules, const CostTable& given_costs)
      : settings(std::move(given)),
        rules(std::move(given_rules)),
        costs(given_costs),
        books{settings,
              allocations,
              residency,
              [this](DeviceIndex device) { return room(device); },
              [this] { return host_room(); },
              rules,
              costs},
        writer(books),
        mode(settings.mode == ModeName::off ? nullptr : make_mode(books, writer)) {}

  void on(const DeviceSeen& event);
  void on(const HostMemorySeen& event) { host_available = event.available; }
  void on(const DeviceReserved& event) { devices[event.device.value].reserved += event.bytes; }
  void on(const FunctionSeen& event) { rules.function_seen(event.function, event.name); }
  void on(const CallerSeen& event) { callers[event.caller] = event.library; }
  void match(const AllocationRequested& event, Allocation& allocation);
  void on(const AllocationRequested& event);
  void on(const AllocationSettled& event);
  void on(const FreeRequested& event);
  void on(const Freed& event);
  void on(const LaunchShapeSeen& event);
  void on(const Launched& event);
  void on(const Copied& event);
  void on(const Filled& event);
  void on(const GraphSeen& event) { graphs[event.graph] = event.shapes; }
  void on(const GraphLaunched& event);
  void on(const MoveFinished& event);
  void on(const TelemetryChanged& event);
  void on(const Mapped& event);
  template <class Other>
  void on(const Other& event) {
    (void)event;
  }

  void refuse(const AllocationRequested& event, Reason reason, Bytes missing);
  void back(Allocation& allocation, Backing backing, Placement first, Reason reason);
  void back_plain(const AllocationRequested& event, Allocation& allocation, Reason reason);
  void back_managed(const AllocationRequested& event, Allocation& allocation);
  void back_stretchable(const AllocationRequested& event, Allocation& allocation);
  bool refuse_first(const AllocationRequested& event, Bytes outside);
  [[nodiscard]] bool spills(const AllocationRequested& event, const Device& device, Reason& reason) const;

  [[nodiscard]] Bytes window(const Device& device) const;
  [[nodiscard]] Bytes room(DeviceIndex index) const;
  [[nodiscard]] Bytes host_limit() const;
  [[nodiscard]] Bytes host_room() const { return host_limit().saturating_minus(residency.host_pages() + host_pending); }
  const std::vector<Touch>& resolve(Shape& shape);
  [[nodiscard]] Touch touch(Address address, Bytes bytes);
  void use(const Use& use) {
    if (mode) mode->used(use);
  }

  Settings settings;
  RuleMatcher rules;
  const CostTable costs;
  std::unordered_map<CallerId, std::string> callers;
  AllocationOrder order;  // of the latest request for memory
  AllocationMap allocations;
  Residency residency;
  Books books;
  DecisionWriter writer;
  std::map<std::uint32_t, Device> devices;
  Bytes host_available;
  Bytes host_pending;  // map-style handles promised host memory, not settled yet
  std::optional<TelemetryState> telemetry;
  bool window_lost_once = false;
  bool refused_once = false;  // oom_first has spoken for this overflow
  std::unordered_map<LaunchShapeId, Shape> shapes;
  std::unordered_map<GraphId, std::vector<LaunchShapeId>> graphs;
  LaunchNumber launches;
  Nanoseconds now;
  std::uint64_t ignored = 0;
  std::unique_ptr<Mode> mode;
};

void Engine::State::on(const DeviceSeen& event) {
  Device& device = devices[event.device.value];
  device.total = event.total;
  device.can_spill = event.can_spill;
  const Bytes reserve = std::min(kReserveCap, Bytes(event.total.count() / kReserveShare));
  const Bytes most = event.free.saturating_minus(reserve);
  device.budget = settings.device_budget ? std::min(settings.device_budget->of(event.total), event.free) : most;
  device.expected_spill = device.budget < most;
}

void Engine::State::on(const AllocationRequested& event) {
  Allocation* allocation = allocations.request(event);
  if (allocation == nullptr) {
    ++ignored;
    return;
  }
  if (!mode || event.kind == AllocationKind::program_managed || event.kind == AllocationKind::imported) {
    back(*allocation, event.kind == AllocationKind::program_managed ? Backing::managed : Backing::device,
         Placement::unpopulated, mode ? Reason::not_spillable : Reason::mode);
    return;
  }
  match(event, *allocation);
  if (event.kind == AllocationKind::stretchable) return back_stretchable(event, *allocation);
  Reason reason = Reason::fits;
  if (spills(event, devices[event.device.value], reason)) {
    back_managed(event, *allocation);
  } else {
    back_plain(event, *allocation, reason);
  }
}

// What the policy file says about memory when it is asked for.
void Engine::State::match(const AllocationRequested& event, Allocation& allocation) {
  order = {order.value + 1};
  if (rules.empty()) return;
  const auto caller = callers.find(event.caller);
  const std::string_view library = caller == callers.end() ? std::string_view() : caller->second;
  allocation.rules = rules.allocation_rules(event, library, order);
  allocation.rule = rules.match_allocation(event, library, order);
  if (allocation.rule != nullptr) allocation.cause.rule = allocation.rule->number;
}

bool Engine::State::spills(const AllocationRequested& event, const Device& device, Reason& reason) const {
  const bool spillable = event.kind == AllocationKind::linear || event.kind == AllocationKind::pitched ||
                         event.kind == AllocationKind::pool_arena;
  const bool left_out = event.kind == AllocationKind::pool_arena && settings.spill_pools == Switch::off;
  if (!spillable || left_out || !device.can_spill) {
    reason = Reason::not_spillable;
    return false;
  }
  if (event.bytes < kSmallest) {
    reason = Reason::small;
    return false;
  }
  const Allocation* allocation = allocations.find(event.allocation);
  const Rule* rule = allocation == nullptr ? nullptr : allocation->rule;
  if (rule != nullptr && rule->action.backing) {
    reason = Reason::rule;
    return *rule->action.backing == Backing::managed;
  }
  if (settings.backing == BackingMode::device) {
    reason = Reason::mode;
    return false;
  }
  if (rule != nullptr && (rule->action.place == RulePlace::host || rule->action.place == RulePlace::stream))
    return true;
  if (settings.backing == BackingMode::managed || device.expected_spill) return true;
  const Bytes share = settings.plain_share.of(device.budget);
  return device.plain + device.plain_pending + event.bytes > share;
}

void Engine::State::back_plain(const AllocationRequested& event, Allocation& allocation, Reason reason) {
  Device& device = devices[event.device.value];
  const Bytes ceiling = device.budget.saturating_minus(device.reserved);
  const Bytes plain = device.plain + device.plain_pending + event.bytes;
  // What is moving right now cannot be sent out, and what is promised a place is not there yet.
  const Bytes fixed = plain + residency.held_by_moves(event.device) + device.managed_pending;
  // Where nothing can spill, a budget would only take memory away: the program runs as without us.
  if (device.can_spill && fixed > ceiling) {
    refuse(event, Reason::device_budget, fixed - ceiling);
    return;
  }
  device.plain_pending += event.bytes;
  back(allocation, Backing::device, Placement::unpopulated, reason);
  const Bytes held = residency.usage(event.device).held() + device.managed_pending;
  if (plain + held <= ceiling) return;
  mode->make_room(event.device, std::max(plain + held - ceiling, batch_of(device.budget)));
}

void Engine::State::back_managed(const AllocationRequested& event, Allocation& allocation) {
  Device& device = devices[event.device.value];
  allocation.raw = mode->raw();
  Cause cause;
  const bool on_host = allocation.rule != nullptr && (allocation.rule->action.place == RulePlace::host ||
                                                      allocation.rule->action.place == RulePlace::stream);
  const Bytes inside = on_host ? Bytes() : mode->first_in_hbm(allocation, room(event.device), cause);
  if (on_host) cause.reason = Reason::rule;
  const Bytes outside = event.bytes - inside;
  // Raw memory has no place yet: all that exists must fit in the window and the host together.
  const Bytes capacity = window(device) + host_limit();
  const Bytes managed = residency.usage(event.device).managed + event.bytes;
  const Bytes missing = allocation.raw ? managed.saturating_minus(capacity) : outside.saturating_minus(host_room());
  if (missing > Bytes()) {
    refuse(event, Reason::host_budget, missing);
    return;
  }
  if (refuse_first(event, outside)) return;
  allocation.planned_on_device = inside;
  device.managed_pending += inside;
  const Placement raw_first = inside > Bytes() ? Placement::device : Placement::unpopulated;
  back(allocation, Backing::managed,
       allocation.raw ? raw_first : (inside > Bytes() ? Placement::device : Placement::host), cause.reason);
}

// memory.oom_first: true if this request is the one that has to fail, as `outside` of it would spill.
bool Engine::State::refuse_first(const AllocationRequested& event, Bytes outside) {
  const bool now = settings.oom_first && outside > Bytes() && !refused_once;
  refused_once = (refused_once || now) && outside > Bytes();
  if (now) refuse(event, Reason::oom_first, outside);
  return now;
}

// A map-style handle is device memory while the budget lasts, and host memory for good afterwards: what is mapped
// cannot be moved under a kernel that may be using it.
void Engine::State::back_stretchable(const AllocationRequested& event, Allocation& allocation) {
  const Device& device = devices[event.device.value];
  const RuleAction action = allocation.rule == nullptr ? RuleAction{} : allocation.rule->action;
  const bool by_rule = action.place == RulePlace::host || action.place == RulePlace::stream;
  const bool plain_only = action.backing == Backing::device || settings.backing == BackingMode::device;
  if (!device.can_spill || settings.spill_vmm == Switch::off || plain_only) {
    return back_plain(event, allocation, action.backing ? Reason::rule : Reason::not_spillable);
  }
  // As for plain memory: what managed pages hold can be sent out, unless it is moving. What is mapped cannot: a part of
  // the budget is left to what has to be on the device and comes later, if only a counter of eight bytes.
  const Bytes fixed = device.plain + device.plain_pending + event.bytes + residency.held_by_moves(event.device) +
                      device.managed_pending + batch_of(device.budget);
  if (!by_rule && !device.full && fixed <= device.budget.saturating_minus(device.reserved)) {
    return back_plain(event, allocation, Reason::fits);
  }
  if (const Bytes missing = event.bytes.saturating_minus(host_room()); missing > Bytes()) {
    return refuse(event, Reason::host_budget, missing);
  }
  if (refuse_first(event, event.bytes)) return;
  host_pending += event.bytes;
  back(allocation, Backing::managed, Placement::host, by_rule ? Reason::rule : Reason::device_budget);
}

void Engine::State::back(Allocation& allocation, Backing backing, Placement first, Reason reason) {
  allocation.backing = backing;
  allocation.cause.reason = reason;
  writer.emit(BackAllocation{allocation.id, backing, first}, allocation.cause);
}

void Engine::State::refuse(const AllocationRequested& event, Reason reason, Bytes missing) {
  Cause cause;
  cause.reason = reason;
  allocations.remove(event.allocation);
  writer.emit(RefuseAllocation{event.allocation, missing}, cause);
}

void Engine::State::on(const AllocationSettled& event) {
  Allocation* allocation = allocations.find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::requested) {
    ++ignored;
    return;
  }
  Device& device = devices[allocation->device.value];
  const bool spillable_kind = allocation->managed();
  const bool on_host = allocation->on_host_for_good();
  if (spillable_kind) {
    device.managed_pending -= allocation->planned_on_device;
  } else if (on_host) {
    host_pending -= allocation->bytes;
  } else if (allocation->counted() && mode) {
    device.plain_pending -= allocation->bytes;
  }
  if (!event.result.ok()) {
    // The card holds less than the budget says (another process, or what cannot be counted): spill from here on.
    constexpr std::int32_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
    const bool device_full = event.result.code == kOutOfMemory && mode && !spillable_kind && !on_host;
    if (device_full && device.can_spill) device.expected_spill = true;
    if (device_full && allocation->kind == AllocationKind::stretchable) device.full = true;
    allocations.remove(event.allocation);
    return;
  }
  allocations.settle(event);
  if (on_host) {
    residency.add_on_host(allocation->id, allocation->device, allocation->bytes);
    return;
  }
  if (!spillable_kind) {
    if (allocation->counted()) device.plain += allocation->bytes;
    return;
  }
  residency.add(allocation->id, allocation->device, allocation->bytes);
  mode->settled(*allocation);
}

void Engine::State::on(const FreeRequested& event) {
  Allocation* allocation = allocations.find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::live) {
    ++ignored;
    return;
  }
  if (residency.moving(allocation->id)) writer.emit(CancelMoves{allocation->id}, allocation->cause);
  if (mode && allocation->managed()) mode->freeing(*allocation);
  allocation->life = AllocationLife::dying;
}

void Engine::State::on(const Freed& event) {
  Allocation* allocation = allocations.find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::dying) {
    ++ignored;
    return;
  }
  if (!event.result.ok()) {
    allocation->life = AllocationLife::live;
    return;
  }
  if (residency.holds(allocation->id)) {
    residency.remove(allocation->id);
  } else if (allocation->counted()) {
    devices[allocation->device.value].plain -= allocation->bytes;
    devices[allocation->device.value].full = false;
  }
  allocations.remove(event.allocation);
}

void Engine::State::on(const LaunchShapeSeen& event) { shapes[event.shape] = Shape{event, 0, {}}; }

Touch Engine::State::touch(Address address, Bytes bytes) {
  Touch touch;
  const Allocation* allocation = allocations.at(address);
  if (allocation == nullptr || allocation->life != AllocationLife::live) return touch;
  touch.allocation = allocation->id;
  touch.offset = Bytes(address.value - allocation->address.value);
  const Bytes rest = allocation->bytes - touch.offset;
  touch.bytes = bytes == Bytes() ? rest : std::min(bytes, rest);
  touch.managed = allocation->managed();
  return touch;
}

const std::vector<Touch>& Engine::State::resolve(Shape& shape) {
  if (shape.epoch == allocations.epoch()) return shape.touches;
  shape.epoch = allocations.epoch();
  shape.touches.clear();
  for (const PointerArgument& argument : shape.seen.arguments) {
    Touch found = touch(argument.address, {});
    found.argument = argument.index;
    if (found.allocation) shape.touches.push_back(found);
  }
  return shape.touches;
}

void Engine::State::on(const Launched& event) {
  launches = {launches.value + 1};
  const auto entry = shapes.find(event.shape);
  if (entry == shapes.end()) {
    ++ignored;
    return;
  }
  const LaunchShapeSeen& seen = entry->second.seen;
  use({TouchSource::launch, launches, event.shape, seen.function, seen.threads, event.stream, now,
       resolve(entry->second)});
}

void Engine::State::on(const GraphLaunched& event) {
  launches = {launches.value + 1};
  const auto graph = graphs.find(event.graph);
  if (graph == graphs.end()) {
    ++ignored;
    return;
  }
  // One launch to the program; what its kernels name, kernel by kernel.
  std::vector<Touch> all;
  std::vector<GraphKernel> kernels;
  for (const LaunchShapeId id : graph->second) {
    const auto shape = shapes.find(id);
    if (shape == shapes.end()) continue;
    const std::vector<Touch>& touches = resolve(shape->second);
    if (all.size() + touches.size() > kMostTouches) break;
    all.insert(all.end(), touches.begin(), touches.end());
    const LaunchShapeSeen& seen = shape->second.seen;
    kernels.push_back({id, seen.function, seen.threads, static_cast<std::uint32_t>(touches.size())});
  }
  use({TouchSource::launch, launches, {}, {}, 0, event.stream, now, all, kernels});
}

void Engine::State::on(const Copied& event) {
  const std::array<Touch, 2> touches{touch(event.destination, event.bytes), touch(event.source, event.bytes)};
  use({TouchSource::copy, launches, {}, {}, 0, event.stream, now, touches});
}

void Engine::State::on(const Filled& event) {
  const std::array<Touch, 1> touches{touch(event.address, event.bytes)};
  use({TouchSource::fill, launches, {}, {}, 0, event.stream, now, touches});
}

// Said once each time it changes; lost windows only the first time.
void Engine::State::on(const TelemetryChanged& event) {
  // What follows from it, the mode says.
  if (event.state == TelemetryState::pages_watched || event.state == TelemetryState::pages_lost) return;
  const bool lost = event.state == TelemetryState::window_lost;
  if (lost ? window_lost_once : telemetry == event.state) return;
  if (lost) {
    window_lost_once = true;
  } else {
    telemetry = event.state;
  }
  writer.note({}, {}, {}, telemetry_note(event), {});
}

void Engine::State::on(const Mapped& event) {
  Allocation* allocation = allocations.find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::live) {
    ++ignored;
    return;
  }
  allocations.map(*allocation, event.address);
}

void Engine::State::on(const MoveFinished& event) {
  const auto finished = residency.finish_move(event.decision, event.outcome);
  if (!finished) return;  // of an allocation that was freed meanwhile
  if (mode) mode->moved(*finished, event.outcome);
}

Bytes Engine::State::window(const Device& device) const {
  const Bytes left = device.budget.saturating_minus(device.plain + device.plain_pending + device.reserved);
  return std::min(left, settings.window.of(device.budget));
}

Bytes Engine::State::room(DeviceIndex index) const {
  const auto device = devices.find(index.value);
  if (device == devices.end()) return {};
  return window(device->second).saturating_minus(residency.usage(index).held() + device->second.managed_pending);
}

// What is filled already was taken from what was free: it counts as ours, not as gone.
Bytes Engine::State::host_limit() const {
  const Bytes reachable = host_available + residency.host_pages();
  return std::min(settings.host_budget.of(reachable), reachable);
}

Engine::Engine(Settings settings, std::vector<Rule> rules, const CostTable& costs)
    : state_(std::make_unique<State>(std::move(settings), std::move(rules), costs)) {}
Engine::~Engine() = default;

void Engine::process(const Event& event, std::vector<Decision>& decisions) {
  State& state = *state_;
  state.now = event.time;
  state.writer.into(&decisions);
  std::visit([&state](const auto& body) { state.on(body); }, event.body);
  if (state.mode) state.mode->heard(event);
}

DeviceTotals Engine::totals(DeviceIndex index) const {
  DeviceTotals totals;
  const auto entry = state_->devices.find(index.value);
  if (entry == state_->devices.end()) return totals;
  const State::Device& device = entry->second;
  const ResidencyUsage& usage = state_->residency.usage(index);
  totals.budget = device.budget;
  totals.plain = device.plain + device.plain_pending;
  totals.reserved = device.reserved;
  totals.managed = usage.managed;
  totals.resident = usage.resident;
  totals.arriving = usage.arriving;
  totals.on_host = usage.on_host;
  totals.window = state_->window(device);
  totals.resident_peak = usage.peak;
  totals.total_virtual = device.budget + state_->host_limit();
  totals.moved_in = usage.moved_in;
  totals.moved_out = usage.moved_out;
  return totals;
}

bool Engine::would_spill(const AllocationRequested& request) const {
  const auto entry = state_->devices.find(request.device.value);
  if (!state_->mode || entry == state_->devices.end()) return false;
  Reason reason = Reason::fits;
  if (state_->spills(request, entry->second, reason)) return true;
  // A rule may still send it to the host; which one matches is known only when it is asked for.
  // An arena is made where that is known only.
  return reason == Reason::fits && !state_->rules.empty() && request.kind != AllocationKind::pool_arena;
}

const Settings& Engine::settings() const { return state_->settings; }
std::uint64_t Engine::ignored_events() const { return state_->ignored; }
LaunchNumber Engine::launches() const { return state_->launches; }
bool Engine::wants_page_hits() const { return state_->mode && state_->mode->wants_page_hits(); }
IterationProgress Engine::progress() const { return state_->mode ? state_->mode->progress() : IterationProgress(); }

const std::string& Engine::library(CallerId caller) const {
  static const std::string none;
  const auto found = state_->callers.find(caller);
  return found == state_->callers.end() ? none : found->second;
}

std::vector<AllocationTotals> Engine::most_moved(std::size_t most) const {
  std::vector<AllocationTotals> all;
  state_->residency.each([&](AllocationId id, DeviceIndex device, const AllocationPages& pages) {
    const Allocation* of = state_->allocations.find(id);
    if (of == nullptr) return;
    all.push_back({id, device, of->bytes, pages.resident, pages.on_host, pages.crossed, of->said.most(), of->caller});
  });
  const auto shown = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::partial_sort(all.begin(), shown, all.end(), [](const AllocationTotals& a, const AllocationTotals& b) {
    if (a.crossed != b.crossed) return a.crossed > b.crossed;
    return a.on_host != b.on_host ? a.on_host > b.on_host : a.id < b.id;
  });
  all.erase(shown, all.end());
  return all;
}

LaunchCount Engine::iteration() const { return state_->mode ? state_->mode->iteration() : LaunchCount(); }

std::string Engine::check_invariants() const {
  std::string broken = state_->residency.check_invariants();
  if (!broken.empty()) return broken;
  for (const auto& [index, device] : state_->devices) {
    const Bytes held = state_->residency.usage({index}).held() + device.managed_pending;
    if (device.plain + device.reserved + held > device.budget && held > Bytes()) {
      return "plain, reserved and managed bytes in HBM exceed the budget";
    }
  }
  return {};
}

}  // namespace spillway::policy
