// What the engine holds, and who answers which event: requests for memory, their ends and frees in
// engine_allocations.cpp, everything else in engine.cpp. Private to these two.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/allocation_map.hpp"
#include "policy/engine.hpp"
#include "policy/modes/mode.hpp"
#include "policy/plain_memory.hpp"
#include "policy/residency.hpp"

namespace spillway::policy {

struct Engine::State {
  struct Device {
    Bytes total;
    Bytes budget;
    PlainMemory plain;
    Bytes managed_pending;  // promised a place in HBM, not settled yet
    bool full = false;      // the driver had none left for the latest map-style handle, whatever the budget says
    Bytes reserved;
    bool can_spill = false;
    bool expected_spill = false;
    enum class OwnContext : std::uint8_t { none, made, refused } own_context = OwnContext::none;
    bool moves = false;  // managed pages may come in: our context is made, or there was room for it
    bool said_unmoved = false;
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
  void on(const DeviceReserved& event);
  void on(const ContextRefused& event);
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

  // `rule`: the one that keeps the memory from spilling, or 0.
  void refuse(const AllocationRequested& event, Reason reason, Bytes missing, std::uint16_t rule = 0);
  void back(Allocation& allocation, Backing backing, Placement first, Reason reason);
  struct Lack {
    Reason reason;
    Bytes missing;
  };
  std::optional<Lack> promise_plain(const AllocationRequested& event);
  void back_plain(const AllocationRequested& event, Allocation& allocation, Reason reason);
  void back_managed(const AllocationRequested& event, Allocation& allocation);
  void back_stretchable(const AllocationRequested& event, Allocation& allocation);
  void look_for_room_to_move(DeviceIndex index);
  [[nodiscard]] Bytes fixed_with(const AllocationRequested& event, const Device& device) const;
  Bytes make_room(DeviceIndex index);
  Bytes displace(DeviceIndex index, Bytes bytes);
  [[nodiscard]] Bytes batch(const Device& device) const;
  bool refuse_first(const AllocationRequested& event, Bytes outside);
  [[nodiscard]] bool spills(const AllocationRequested& event, const Device& device, Reason& reason) const;

  [[nodiscard]] Bytes window(const Device& device) const;
  [[nodiscard]] Bytes room(DeviceIndex index) const;
  [[nodiscard]] Bytes lacking_to_move(const Device& device) const;
  [[nodiscard]] Bytes host_memory() const { return host_available + residency.host_pages(); }
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

}  // namespace spillway::policy
