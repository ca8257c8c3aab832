// The streams that are being captured, counted in LaunchPath::captures from before the driver begins until after it has
// ended them. A capture ends with its stream and with its context too. Any thread; no driver call under the lock.
#pragma once

#include <cstddef>
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

  // Before the driver begins one. Before it ends them, as their handles may be others' right after. `settle` follows.
  [[nodiscard]] Taken begin(const Capture& capture);
  [[nodiscard]] Taken take(std::uint64_t stream);
  [[nodiscard]] Taken take_of(CUcontext context);
  // The driver has answered.
  enum class Now : std::uint8_t { captured, not_captured };
  void settle(const Taken& taken, Now now);

 private:
  template <class Ends>
  Taken take_if(const Ends& ends);
  void count() const;

  std::mutex mutex_;
  std::vector<Capture> all_;
  std::size_t taken_ = 0;  // not in `all_`, counted all the same
};

// Made by the first that asks, never destroyed.
Captures& open_captures();

}  // namespace spillway::shim
