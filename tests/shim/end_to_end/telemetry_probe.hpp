// What the telemetry tests' programs share: an ordinary program in the driver API with buffers of one size, launched on
// in an order that repeats nowhere.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {

class Workload {
 public:
  // Buffers of 2 MiB: the smallest that may spill.
  explicit Workload(std::size_t buffers, std::size_t streams = 1, CUdevice device = 0);
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  ~Workload();
  void launch(int count);
  CUresult launch_on(CUdeviceptr data, int elements, CUstream stream);
  void finish();
  [[nodiscard]] const Device& device() const { return device_; }
  // Sum of the first values: what the launches made of them.
  float sum();

 private:
  Device device_;
  std::vector<CUdeviceptr> buffers_;
  std::vector<CUstream> streams_;
  std::uint64_t launches_ = 0;
  std::mt19937 random_{1129};
};

}  // namespace spillway::probe
