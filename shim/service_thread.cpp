#include "shim/service_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "shim/own_threads.hpp"
#include "shim/service_signals.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {

std::optional<std::thread> start_service_thread(const char* name, std::function<void()> body) {
  // A new thread inherits the mask, so there is no moment in which a signal could reach it.
  const sigset_t all = signals_of_the_program();
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::optional<std::thread> thread;
  try {
    thread.emplace([name, run = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      const OwnThread counted;
      const HookScope straight_through;
      run();
    });
  } catch (...) {
    // No thread, or no memory for one. The program's signals are let in again in any case.
    thread.reset();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace spillway::shim
