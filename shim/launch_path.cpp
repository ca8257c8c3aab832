#include "shim/launch_path.hpp"

#include <pthread.h>

#include "shim/driver.hpp"
#include "shim/thread_ring.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {

namespace {

// Holds a value whose destructor never runs.
template <class Value>
union Immortal {
  constexpr Immortal() : value() {}
  ~Immortal() {}
  Value value;
};

constinit Immortal<LaunchPath> path;

// Tells the registry when a thread ends. A pthread key and no C++ thread_local destructor: that would allocate, and
// would run at a time we do not choose.
constinit pthread_key_t ring_key = 0;
constinit std::atomic<int> key_state{0};  // 0 not made, 1 being made, 2 ready, 3 failed

void thread_ends(void* ring) {
  this_thread.ring = nullptr;
  this_thread.ring_refused = true;  // a later destructor of this thread may still launch: not recorded
  RingRegistry::finish(static_cast<EventRing*>(ring));
}

bool key_ready() {
  int state = key_state.load(std::memory_order_acquire);
  if (state == 2) return true;
  if (state == 0 && key_state.compare_exchange_strong(state, 1, std::memory_order_acq_rel)) {
    const bool made = pthread_key_create(&ring_key, thread_ends) == 0;
    key_state.store(made ? 2 : 3, std::memory_order_release);
    return made;
  }
  return false;  // another thread is making it this moment; this thread's next launch will find it
}

}  // namespace

LaunchPath& launch_path() { return path.value; }

EventRing* make_thread_ring(ThreadState& thread) {
  if (thread.ring_refused || !key_ready()) return nullptr;
  EventRing* ring = launch_path().rings.adopt();
  if (ring == nullptr || pthread_setspecific(ring_key, ring) != 0) {
    if (ring != nullptr) RingRegistry::finish(ring);
    thread.ring_refused = true;
    return nullptr;
  }
  thread.ring = ring;
  return ring;
}

std::uint64_t stream_word(CUstream stream, bool per_thread) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  const auto thread_handle = reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
  const auto legacy_handle = reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY);
  if (handle == legacy_handle || (handle == 0 && !per_thread)) return 0;
  if (handle != thread_handle && handle != 0) return handle;
  const EventRing* ring = thread_ring(this_thread);
  return kPerThreadStream | (ring == nullptr ? 0 : ring->number());
}

CUstreamCaptureStatus capture_status(CUstream stream, bool per_thread) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto is_capturing = driver().cuStreamIsCapturing;
  const CUstream meant = stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream;
  const bool said = is_capturing != nullptr && is_capturing(meant, &status) == CUDA_SUCCESS;
  return said ? status : CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace spillway::shim
