// What every entry point does first: count the call, inject a failure or delay, take the world's lock.
#pragma once

#include <mutex>

#include "tools/simulated_device/entry_points.hpp"
#include "tools/simulated_device/first_come_mutex.hpp"

namespace spillway::simulated {

class Entering {
 public:
  explicit Entering(EntryPoint entry);
  ~Entering();
  Entering(const Entering&) = delete;
  Entering& operator=(const Entering&) = delete;
  // Not CUDA_SUCCESS: return this to the program without running the call.
  [[nodiscard]] CUresult result() const { return result_; }

 private:
  std::unique_lock<FirstComeMutex> lock_;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace spillway::simulated
