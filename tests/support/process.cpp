#include "tests/support/process.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace spillway::tests {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command, const ProcessOptions& options) {
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(125);
  if (options.user != 0 && (::setgid(options.user) != 0 || ::setuid(options.user) != 0)) ::_exit(125);
  ::unsetenv("COLUMNS");  // of whoever runs the tests
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(126);
}

// Until both ends are closed.
void read_both(int out, int err, ProcessResult& result) {
  std::array<pollfd, 2> files = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<char, 4096> piece{};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    if (::poll(files.data(), files.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      const ssize_t got = ::read(files[i].fd, piece.data(), piece.size());
      if (got <= 0) {
        files[i].fd = -1;
      } else {
        (i == 0 ? result.out : result.err).append(piece.data(), static_cast<std::size_t>(got));
      }
    }
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const ProcessOptions& options) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  ProcessResult result;
  if (::pipe(out.data()) != 0 || ::pipe(err.data()) != 0) return result;
  if (options.close_stdout_reader) ::close(out[0]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    for (const int end : {out[0], out[1], err[0], err[1]}) {
      if (end > STDERR_FILENO) ::close(end);
    }
    become(command, options);
  }
  ::close(out[1]);
  ::close(err[1]);
  std::thread signaller([&] {
    if (options.signal == 0) return;
    ::usleep(static_cast<useconds_t>(options.signal_after_ms) * 1000);
    ::kill(child, options.signal);
  });
  read_both(options.close_stdout_reader ? -1 : out[0], err[0], result);
  int status = 0;
  ::waitpid(child, &status, 0);
  signaller.join();
  if (!options.close_stdout_reader) ::close(out[0]);
  ::close(err[0]);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace spillway::tests
