#include "policy/possible_events.hpp"

#include <algorithm>
#include <variant>

namespace spillway::policy {
namespace {

constexpr std::uint32_t kMostDevices = 256;

bool can_be(LaunchShapeId shape) { return (shape.value & kGraphShapeBit) == 0; }
bool can_be(GraphId graph) { return (graph.value & kGraphShapeBit) == 0; }

}  // namespace

struct PossibleEvents::Judge {
  PossibleEvents& told;

  [[nodiscard]] Known* find(AllocationId id) const {
    const auto found = told.allocations_.find(id);
    return found == told.allocations_.end() ? nullptr : &found->second;
  }
  void end(Known& known) const {
    told.memory_ -= known.bytes;
    known = {Known::Life::over, {}};
  }

  bool operator()(const DeviceSeen& event) const {
    return event.device.value < kMostDevices && event.total <= kMostMemory && event.free <= kMostMemory;
  }
  bool operator()(const HostMemorySeen& event) const { return event.available.count() >> 60U == 0; }
  bool operator()(const DeviceReserved& event) const {
    if (event.device.value >= kMostDevices || event.bytes > kMostMemory.saturating_minus(told.reserved_)) return false;
    told.reserved_ += event.bytes;
    return true;
  }
  bool operator()(const ContextRefused& event) const { return event.device.value < kMostDevices; }
  bool operator()(const AllocationRequested& event) const {
    if (!event.allocation || event.device.value >= kMostDevices || event.bytes > kMostMemory) return false;
    return told.allocations_.try_emplace(event.allocation).second;
  }
  bool operator()(const AllocationSettled& event) const {
    Known* known = find(event.allocation);
    if (known == nullptr || known->life != Known::Life::requested) return false;
    if (!event.result.ok()) {
      end(*known);
      return true;
    }
    if (event.bytes > kMostMemory.saturating_minus(told.memory_)) return false;
    if (event.address.value + event.bytes.count() < event.address.value) return false;
    told.memory_ += event.bytes;
    *known = {Known::Life::live, event.bytes};
    return true;
  }
  bool operator()(const FreeRequested& event) const {
    Known* known = find(event.allocation);
    if (known == nullptr || known->life != Known::Life::live) return false;
    known->life = Known::Life::dying;
    return true;
  }
  bool operator()(const Freed& event) const {
    Known* known = find(event.allocation);
    if (known == nullptr || known->life != Known::Life::dying) return false;
    if (event.result.ok()) {
      end(*known);
    } else {
      known->life = Known::Life::live;
    }
    return true;
  }
  bool operator()(const Mapped& event) const {
    const Known* known = find(event.allocation);
    return known != nullptr && known->life == Known::Life::live &&
           event.address.value + known->bytes.count() >= event.address.value;
  }
  bool operator()(const LaunchShapeSeen& event) const { return can_be(event.shape); }
  bool operator()(const Launched& event) const { return can_be(event.shape); }
  bool operator()(const GraphLaunched& event) const { return can_be(event.graph); }
  bool operator()(const GraphSeen& event) const {
    return can_be(event.graph) &&
           std::all_of(event.shapes.begin(), event.shapes.end(), [](LaunchShapeId shape) { return can_be(shape); });
  }
  template <class Other>
  bool operator()(const Other& /*event*/) const {
    return true;
  }
};

bool PossibleEvents::possible(const Event& event) {
  const bool can = std::visit(Judge{*this}, event.body);
  impossible_ += can ? 0 : 1;
  return can;
}

}  // namespace spillway::policy
