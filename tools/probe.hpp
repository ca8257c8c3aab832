// What one device and its link cost, measured: the work behind `spillway probe`.
//
// Bounded: at most kMostSeconds, kMostMemory of device memory and as much pinned or managed host memory, and never more
// than a quarter of what the card has free, so that the driver never has to evict. Everything is given back at the end.
// Times are the device's (events), so that the simulated device measures its own virtual clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/cost_file.hpp"
#include "policy/cost_table.hpp"
#include "policy/units.hpp"
#include "tools/cuda_driver.hpp"

namespace spillway::tools {

inline constexpr double kMostSeconds = 15;
inline constexpr policy::Bytes kMostMemory{std::uint64_t{2} << 30};

// What is measured besides the cost table, to look at.
struct ProbeFigure {
  std::string key;
  std::string unit;  // as CostRow::unit
  double value = 0;
  std::string sentence;
};

struct ProbeResult {
  policy::ProbedDevice device;
  bool simulated = false;
  policy::Bytes used;  // device memory at a time, at most
  policy::CostTable costs;
  std::vector<ProbeFigure> figures;
};

// Of device `index`. Nothing if it cannot be measured; `problem` then says why and what to do.
std::optional<ProbeResult> probe_device(CudaDriver& driver, int index, std::string& problem);

}  // namespace spillway::tools
