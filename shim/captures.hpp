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
  struct Capture {
    std::uint64_t stream = 0;  // as the rings name it
    CUcontext context = nullptr;
  };
  using Taken = std::vector<Capture>;

  void began(const Capture& capture);
  // Before the driver ends them, as their handles may be others' right after; what it did not end is put back.
  [[nodiscard]] Taken take(std::uint64_t stream);
  [[nodiscard]] Taken take_of(CUcontext context);
  void put_back(const Taken& taken);

 private:
  template <class Ends>
  Taken take_if(const Ends& ends);
  void count() const;

  std::mutex mutex_;
  std::vector<Capture> all_;
};

// Made by the first that asks, never destroyed.
Captures& open_captures();

}  // namespace spillway::shim
