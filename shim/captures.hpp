// The streams that are being captured, counted in LaunchPath::captures. A capture ends with its stream and with its
// context too. Any thread; no driver call under the lock.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "shim/cuda_driver.hpp"

namespace spillway::shim {

class Captures {
 public:
  // `stream`: as the rings name it.
  void began(std::uint64_t stream, CUcontext context);
  void ended(std::uint64_t stream);
  void context_ended(CUcontext context);

 private:
  struct Capture {
    std::uint64_t stream = 0;
    CUcontext context = nullptr;
  };
  void count() const;

  std::mutex mutex_;
  std::vector<Capture> all_;
};

// Made by the first that asks, never destroyed.
Captures& open_captures();

}  // namespace spillway::shim
