// A lock that goes to who has waited longest. Kernels run under the world's: a thread that launches without a pause
// takes a std::mutex again before any other has woken up, and keeps those that move pages waiting for half a second.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace spillway::simulated {

class FirstComeMutex {
 public:
  // No point of cancellation, as that of a std::mutex is none: who leaves the line keeps all behind it waiting.
  void lock() {
    int cancellation = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    {
      std::unique_lock lock(mutex_);
      const std::uint64_t place = next_++;
      changed_.wait(lock, [&] { return serving_ == place; });
    }
    pthread_setcancelstate(cancellation, nullptr);
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    if (++serving_ != next_) changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;     // in line
  std::uint64_t serving_ = 0;  // who holds it, or takes it next
};

}  // namespace spillway::simulated
