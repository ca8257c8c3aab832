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

Ending run_and_wait(const std::string& path, const std::vector<std::string>& arguments) {
  sigset_t watched;
  sigset_t before;
  sigfillset(&watched);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&watched, own);
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  int failed[2];
  if (::pipe2(failed, O_CLOEXEC) != 0) return {errno, 0};
  const pid_t child = ::fork();
  if (child == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    const int error = replace_by(path, arguments);
    if (::write(failed[1], &error, sizeof error) < 0) ::_exit(127);
    ::_exit(127);
  }
  Ending ending;
  if (child < 0) ending.error = errno;
  ::close(failed[1]);
  // Empty as soon as the program has started: exec closed the other end.
  if (child > 0 && ::read(failed[0], &ending.error, sizeof ending.error) <= 0) ending.error = 0;
  ::close(failed[0]);
  if (child > 0) ending.status = follow(child, watched);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return ending;
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
