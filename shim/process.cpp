#include "shim/process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {

namespace {

constinit ProcessListener listener;
constinit pid_t listener_process = 0;
constinit std::atomic<bool> watching{false};
constinit std::atomic<bool> child{false};

void before_fork() {
  if (listener.before_fork != nullptr) listener.before_fork();
}

void after_fork_parent() {
  if (listener.after_fork_parent != nullptr) listener.after_fork_parent();
}

void after_fork_child() {
  launch_path().recording.store(false);
  launch_path().observer.store(nullptr);
  launch_path().graphs.store(nullptr);
  launch_path().rings.reset_after_fork();
  this_thread = ThreadState{};
  // The parent has called the driver, so CUDA is unusable here unless it was never initialised; then it may be started
  // anew and is forwarded. Either way nothing of ours acts.
  child.store(true);
  if (listener.after_fork_child != nullptr) listener.after_fork_child();
}

}  // namespace

void set_process_listener(const ProcessListener& new_listener) {
  listener = new_listener;
  listener_process = ::getpid();
}

bool other_process() { return forked_child() || (listener_process != 0 && listener_process != ::getpid()); }

void watch_process() {
  if (watching.exchange(true)) return;
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

bool forked_child() { return child.load(std::memory_order_relaxed); }

// Runs when main returns or exit is called, after the program's own handlers; not after _exit, abort or a signal.
__attribute__((destructor)) static void at_exit() {
  if (listener.at_exit != nullptr && !other_process()) listener.at_exit();
}

}  // namespace spillway::shim
