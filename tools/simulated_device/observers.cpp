#include "tools/simulated_device/observers.hpp"

#include <mutex>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/launch.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

// World's lock.
Observer observer{};
bool cupti_began = false;
bool counters_awake = false;

}  // namespace

void observe_making() { counters_awake = cupti_began; }

void observe_traffic(Traffic traffic, std::uint64_t address, std::uint64_t bytes, int device) {
  if (observer.traffic == nullptr || !counters_awake) return;
  observer.traffic(static_cast<std::uint32_t>(traffic), address, bytes, device, virtual_time());
}

void observe_kernel(const char* name, std::int64_t start, std::int64_t end, int device, const LaunchOrigin& origin,
                    const unsigned grid[3], const unsigned block[3]) {
  if (observer.kernel == nullptr) return;
  observer.kernel(name, start, end, device, origin.stream, origin.call, origin.graph_node, grid, block);
}

}  // namespace spillway::simulated

// The stand-in CUPTI's first call.
extern "C" __attribute__((visibility("default"))) void spillway_simulated_cupti_begins() {
  const std::lock_guard lock(spillway::simulated::world().mutex);
  spillway::simulated::cupti_began = true;
}

// The stand-in CUPTI's way in; looked up by name. Null members stop the reports.
extern "C" __attribute__((visibility("default"))) void spillway_simulated_observe(
    const spillway::simulated::Observer* observer) {
  const std::lock_guard lock(spillway::simulated::world().mutex);
  spillway::simulated::observer = *observer;
}

extern "C" __attribute__((visibility("default"))) std::int64_t spillway_simulated_virtual_time() {
  const std::lock_guard lock(spillway::simulated::world().mutex);
  return spillway::simulated::virtual_time();
}
