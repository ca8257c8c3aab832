// Runs a real program and keeps all that it says.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace spillway::tests {

struct ProcessResult {
  int exit_code = -1;  // -1 if a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
};

struct ProcessOptions {
  std::map<std::string, std::string> environment;  // added to ours
  std::string folder;                              // to run in
  unsigned user = 0;                               // to become, when we are root; 0: stay
  bool close_stdout_reader = false;                // standard output is a pipe that nobody reads
  int signal_after_ms = 0;                         // with `signal`
  int signal = 0;
};

ProcessResult run_process(const std::vector<std::string>& command, const ProcessOptions& options = {});

}  // namespace spillway::tests
