// Starting the program. Two ways:
//
// `replace_by` (the default) is exec: the program has our pid, terminal, parent and job, and its exit code and signals
// are its own because nothing stands in between. Nothing can be said after the run then.
//
// `run_and_wait` (for `--summary`) stays as the parent: it passes on the signals sent to it, stops and goes on with the
// program, and ends as the program ended, by the same signal if it was one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace spillway::tools {

// Returns only if it failed: errno.
int replace_by(const std::string& path, const std::vector<std::string>& arguments);

struct Ending {
  int error = 0;   // errno if the program could not be started
  int status = 0;  // as waitpid gives it
};
Ending run_and_wait(const std::string& path, const std::vector<std::string>& arguments);

// Runs it in a process group of its own, which is given the terminal and ends as a whole: after `limit` by SIGTERM, and
// 5 s later by SIGKILL. What it prints goes to standard error. Of the program only its own end is waited for.
struct LimitedEnding {
  Ending ending;
  bool stopped = false;  // at the limit
};
LimitedEnding run_limited(const std::string& path, const std::vector<std::string>& arguments,
                          std::chrono::seconds limit);

// The exit code for main; does not return if the program died of a signal.
int end_like(const Ending& ending);

}  // namespace spillway::tools
