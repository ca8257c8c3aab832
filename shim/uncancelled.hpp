// While one lives, the calling thread is not cancelled: it may be waiting for us or writing a line, and what it has
// begun in our books it has to end. A cancellation that is pending is the thread's again afterwards.
#pragma once

#include <pthread.h>

namespace spillway::shim {

class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  // A thread that may be cancelled at any instruction ends here.
  ~Uncancelled() noexcept(false) { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace spillway::shim
