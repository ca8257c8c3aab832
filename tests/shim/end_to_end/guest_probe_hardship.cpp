// The probe's hardships: what every program counts on is missing, or something happens at a bad time.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {

// Begins anew with a pipe for standard error that nobody reads.
void reader_gone() {
  int ends[2] = {};
  if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) std::exit(3);
  close(ends[0]);
  close(ends[1]);
  execl("/proc/self/exe", "probe", "work", "3", nullptr);
}

// A program that closes standard error and opens a file.
void error_reused(const char* path) {
  close(STDERR_FILENO);
  say("its number", static_cast<std::uint64_t>(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600)));
  work("2");
}

// The same, begun anew without standard error.
void error_closed(const char* path) {
  close(STDERR_FILENO);
  execl("/proc/self/exe", "probe", "error_reused", path, nullptr);
}

// Children that run no fork handlers, and exit.
void raw_forks() {
  work("3");
  for (const bool by_call : {true, false}) {
    const pid_t child =
        by_call ? static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)) : _Fork();
    if (child == 0) std::exit(5);
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
}

// Its constructor waits for a thread that allocates.
void loads_library(const char* path) {
  start();
  say("loaded", static_cast<std::uint64_t>(dlopen(path, RTLD_NOW) != nullptr));
}

}  // namespace spillway::probe
