#include "tools/launch.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace spillway::tools {
namespace {

// Takes what is sent to us until the program has ended.
int follow(pid_t child, const sigset_t& watched) {
  while (true) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&watched, &info);
    if (signal < 0) continue;
    if (signal != SIGCHLD) {
      // What the terminal sends, it has sent to the program as well.
      if (info.si_code != SI_KERNEL) ::kill(child, signal);
      continue;
    }
    int status = 0;
    while (::waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
      if (!WIFSTOPPED(status)) return status;
      ::kill(::getpid(), SIGSTOP);  // the shell sees its job stopped; whoever continues us continues the program
      ::kill(child, SIGCONT);
    }
  }
}

}  // namespace

int replace_by(const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<char*> list;
  for (const std::string& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  ::execv(path.c_str(), list.data());
  return errno;
}

namespace {

// All signals but those that are our own mistakes, for sigwaitinfo.
sigset_t watched_signals() {
  sigset_t watched;
  sigfillset(&watched);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&watched, own);
  return watched;
}

// The child, or -1 and the reason in `error`. `prepare` runs in the child, before it becomes the program.
template <class Prepare>
pid_t start_child(const std::string& path, const std::vector<std::string>& arguments, const sigset_t& mask, int& error,
                  const Prepare& prepare) {
  int failed[2];
  error = 0;
  if (::pipe2(failed, O_CLOEXEC) != 0) return error = errno, -1;
  const pid_t child = ::fork();
  if (child == 0) {
    prepare();
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    const int reason = replace_by(path, arguments);
    if (::write(failed[1], &reason, sizeof reason) < 0) ::_exit(127);
    ::_exit(127);
  }
  if (child < 0) error = errno;
  ::close(failed[1]);
  // Empty as soon as the program has started: exec closed the other end.
  if (child > 0 && ::read(failed[0], &error, sizeof error) <= 0) error = 0;
  ::close(failed[0]);
  return child;
}

// Ends its whole group when the time is up.
bool wait_limited(pid_t child, const sigset_t& watched, std::chrono::seconds limit, int& status) {
  constexpr std::chrono::seconds kGrace{5};
  using Clock = std::chrono::steady_clock;
  Clock::time_point until = Clock::now() + limit;
  bool stopped = false;
  while (::waitpid(child, &status, WNOHANG) != child) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now()).count();
    if (left <= 0) {
      ::kill(-child, stopped ? SIGKILL : SIGTERM);
      stopped = true;
      until = Clock::now() + kGrace;
      continue;
    }
    const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
    siginfo_t info{};
    const int signal = ::sigtimedwait(&watched, &info, &wait);
    if (signal > 0 && signal != SIGCHLD) ::kill(-child, signal);
  }
  return stopped;
}

}  // namespace

Ending run_and_wait(const std::string& path, const std::vector<std::string>& arguments) {
  const sigset_t watched = watched_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  Ending ending;
  const pid_t child = start_child(path, arguments, before, ending.error, [] {});
  if (child > 0) ending.status = follow(child, watched);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return ending;
}

LimitedEnding run_limited(const std::string& path, const std::vector<std::string>& arguments,
                          std::chrono::seconds limit) {
  const sigset_t watched = watched_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  LimitedEnding limited;
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  const pid_t child = start_child(path, arguments, before, limited.ending.error, [terminal] {
    ::setpgid(0, 0);
    if (terminal) ::tcsetpgrp(STDIN_FILENO, ::getpid());
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  });
  if (child > 0) limited.stopped = wait_limited(child, watched, limit, limited.ending.status);
  if (child > 0) ::kill(-child, SIGKILL);  // what it left running
  if (terminal) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return limited;
}

int end_like(const Ending& ending) {
  if (WIFEXITED(ending.status)) return WEXITSTATUS(ending.status);
  const int signal = WTERMSIG(ending.status);
  const rlimit no_core{0, 0};  // the program has left its own
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  return 128 + signal;
}

}  // namespace spillway::tools
