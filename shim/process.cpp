#include "shim/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"
#include "shim/own_threads.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {

namespace {

constinit ProcessListener listener;
constinit pid_t listener_process = 0;
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
  launch_path().events.store(0);
  launch_path().rings.reset_after_fork();
  this_thread = ThreadState{};
  // CUDA is unusable here. Nothing of ours acts.
  child.store(true);
  if (listener.after_fork_child != nullptr) listener.after_fork_child();
}

}  // namespace

void set_process_listener(const ProcessListener& new_listener) {
  listener = new_listener;
  listener_process = ::getpid();
}

bool other_process() { return forked_child() || (listener_process != 0 && listener_process != ::getpid()); }

void watch_process() { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

void watch_exit() {
  std::atexit([] {
    if (listener.before_exit != nullptr && !other_process()) listener.before_exit();
  });
}

bool forked_child() { return child.load(std::memory_order_relaxed); }

namespace {

// State of the main thread, as in /proc: 'Z' once it has ended.
char state_of_main_thread() {
  std::array<char, 64> path{};
  std::array<char, 256> text{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%d/stat", static_cast<int>(::getpid()));
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t got = ::read(file, text.data(), text.size());
  ::close(file);
  // "pid (name) state ...", and a name may hold anything.
  const std::string_view line(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string_view::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

}  // namespace

bool only_own_threads_left() {
  const int own = own_thread_count.load();
  struct stat status {};
  // A folder's links: itself, its parent, and each thread.
  if (::stat("/proc/self/task", &status) != 0 || static_cast<int>(status.st_nlink) - 2 != own + 1) return false;
  return state_of_main_thread() == 'Z' && own_thread_count.load() == own;
}

// Runs when main returns or exit is called, after the program's own handlers; not after _exit, abort or a signal.
__attribute__((destructor)) static void at_exit() {
  if (listener.at_exit != nullptr && !other_process()) listener.at_exit();
}

}  // namespace spillway::shim
