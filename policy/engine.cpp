#include "policy/engine.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "policy/device_budget.hpp"
#include "policy/engine_state.hpp"
#include "policy/own_context.hpp"

namespace spillway::policy {
namespace {

// Of one graph launch; more are damage.
constexpr std::size_t kMostTouches = std::size_t{1} << 20;

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
    case TelemetryState::by_events:
      return "kernel times are sampled by the driver's events" + detail + "; page traffic is not known";
    case TelemetryState::events_refused:
      return "the driver refused an event" + detail + ": no kernel times without CUPTI";
    case TelemetryState::pages_watched:
    case TelemetryState::pages_lost:
    case TelemetryState::window_lost:
      break;
  }
  return "kernels of a sampled window could not be told apart" + detail + ": their times were thrown away";
}

}  // namespace

void Engine::State::on(const DeviceSeen& event) {
  Device& device = devices[event.device.value];
  device.total = event.total;
  device.can_spill = event.can_spill;
  device.budget = device_budget(settings, event);
  device.expected_spill = device.budget < free_less_reserve(event);
}

void Engine::State::on(const DeviceReserved& event) {
  Device& device = devices[event.device.value];
  device.reserved += event.bytes;
  device.own_context = Device::OwnContext::made;
}

void Engine::State::on(const ContextRefused& event) {
  Device& device = devices[event.device.value];
  device.own_context = Device::OwnContext::refused;
  device.moves = false;
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
  if (mode) mode->moved(*finished, event.outcome, now);
}

Bytes Engine::State::window(const Device& device) const {
  const Bytes left = device.budget.saturating_minus(device.plain.taken() + device.reserved);
  return std::min(left, settings.window.of(device.budget));
}

Bytes Engine::State::room(DeviceIndex index) const {
  const auto device = devices.find(index.value);
  if (device == devices.end() || !device->second.moves) return {};
  return window(device->second).saturating_minus(residency.usage(index).held() + device->second.managed_pending);
}

// Room for a chunk beside it, else it would be made for nothing.
Bytes Engine::State::lacking_to_move(const Device& device) const {
  if (device.own_context == Device::OwnContext::made) return {};
  return (device.plain.taken() + own_context_estimate(device.total) + kChunk).saturating_minus(device.budget);
}

// What is filled already was taken from what was free: it counts as ours, not as gone.
Bytes Engine::State::host_limit() const {
  const Bytes reachable = host_memory();
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
  totals.plain = device.plain.taken();
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

Bytes Engine::lacking_to_move(DeviceIndex index) const {
  const auto device = state_->devices.find(index.value);
  return device == state_->devices.end() ? Bytes() : state_->lacking_to_move(device->second);
}

Bytes Engine::host_memory() const { return state_->host_memory(); }

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
UseFound Engine::found(AllocationId allocation) const {
  return state_->mode ? state_->mode->found(allocation) : UseFound::nothing;
}
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
    if (device.plain.live() + device.reserved + held > device.budget && held > Bytes()) {
      return "plain, reserved and managed bytes in HBM exceed the budget";
    }
  }
  return state_->mode ? state_->mode->check_invariants() : std::string();
}

}  // namespace spillway::policy
