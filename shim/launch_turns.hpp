// Launches one at a time, in the modes in which pages come by faults: what one brings in is counted before the next
// decides. First come, first served: threads that launch without a pause would keep one waiting for seconds.
//
// A launch may wait in the driver for what another thread has yet to launch, so who has the turn may keep it for good.
// Where one has kept it for the whole of `longest`, turns are given up for the rest of the run. Threads: all.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace spillway::shim {

class LaunchTurns {
 public:
  enum class Turn : std::uint8_t {
    mine,      // until `give`
    given_up,  // by this call
    none       // they were given up before
  };

  explicit LaunchTurns(std::chrono::milliseconds longest) : longest_(longest) {}

  Turn take() {
    std::unique_lock lock(mutex_);
    const std::uint64_t place = next_++;
    for (std::uint64_t seen = serving_; !given_up_; seen = serving_) {
      const auto over = [&] { return given_up_ || serving_ == place || serving_ != seen; };
      if (!changed_.wait_for(lock, longest_, over)) {
        given_up_ = true;
        changed_.notify_all();
        return Turn::given_up;
      }
      if (serving_ == place) return Turn::mine;
    }
    return Turn::none;
  }

  void give() {
    const std::unique_lock lock(mutex_);
    ++serving_;
    changed_.notify_all();
  }

 private:
  const std::chrono::milliseconds longest_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;     // in line
  std::uint64_t serving_ = 0;  // who has the turn, or takes it next
  bool given_up_ = false;
};

}  // namespace spillway::shim
