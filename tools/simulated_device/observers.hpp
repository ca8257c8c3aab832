// What the stand-in CUPTI is told. Cost one branch when nobody listens. World's lock held.
#pragma once

#include <cstdint>

namespace spillway::simulated {

struct LaunchOrigin;

enum class Traffic : std::uint32_t {
  host_to_device = 0,
  device_to_host = 1,
  device_fault = 2,
  host_fault = 3,
  remote_map = 4,  // host pages mapped for a device: 4 KiB by a fault, a whole chunk where AccessedBy is set
};

// Filled by the stand-in CUPTI; the functions must not call the driver.
struct Observer {
  void (*traffic)(std::uint32_t kind, std::uint64_t address, std::uint64_t bytes, int device, std::int64_t time);
  void (*kernel)(const char* name, std::int64_t start, std::int64_t end, int device, std::uint64_t stream,
                 std::uint64_t correlation, std::uint64_t graph_node, const unsigned grid[3], const unsigned block[3]);
};

// Managed memory or a context was made. Page counters are silent until that happens after CUPTI's first call
// (measured).
void observe_making();
void observe_traffic(Traffic traffic, std::uint64_t address, std::uint64_t bytes, int device);
void observe_kernel(const char* name, std::int64_t start, std::int64_t end, int device, const LaunchOrigin& origin,
                    const unsigned grid[3], const unsigned block[3]);

}  // namespace spillway::simulated
