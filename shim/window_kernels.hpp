// The kernels of a window as their records come, and which launches they were by CUPTI's word. Of a graph launch only
// what its kernels come to is kept: a window may hold thousands of such launches, with thousands of kernels each.
//
// Owned and used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "policy/kernel_matching.hpp"
#include "shim/cupti_records.hpp"

namespace spillway::shim {

class WindowKernels {
 public:
  void add(std::span<const KernelRecord> records);
  void clear();
  // `clock_offset`: CUPTI's clock less ours.
  [[nodiscard]] std::vector<policy::SeenKernel> launches(std::int64_t clock_offset) const;
  // What is kept: of a graph launch, one.
  [[nodiscard]] std::size_t kept() const { return alone_.size() + graphs_.size(); }

 private:
  // From the first kernel's start to the last one's end.
  struct Graph {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t kernels = 0;
  };
  std::vector<KernelRecord> alone_;
  std::map<std::uint64_t, Graph> graphs_;  // by correlation, which the kernels of one launch share
};

}  // namespace spillway::shim
