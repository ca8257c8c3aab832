// How many threads of the process are ours: they must not keep a program alive whose own threads have all ended.
#pragma once

#include <atomic>

namespace spillway::shim {

inline constinit std::atomic<int> own_thread_count{0};

// In the thread itself, for all of its life: so no more are counted than the system knows.
class OwnThread {
 public:
  OwnThread() { own_thread_count.fetch_add(1); }
  ~OwnThread() { own_thread_count.fetch_sub(1); }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
};

}  // namespace spillway::shim
