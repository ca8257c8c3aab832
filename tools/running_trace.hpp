// The trace that a running process writes, found through its open files. It can be read from there even where its path
// is another container's, or is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway::tools {

struct RunningTrace {
  std::uint64_t pid = 0;  // who writes it: the process asked for, or a child of it
  std::string path;       // as the process knows it, for people
  std::string open_as;    // to read it by
};

// In place of a trace, one sentence: there is no such process, it writes no trace, or several of its children do.
struct RunningTraceSearch {
  std::optional<RunningTrace> trace;
  std::string problem;
};
// `proc` is for tests.
RunningTraceSearch find_running_trace(std::uint64_t pid, const std::string& proc = "/proc");

// Whether a process of this number runs on this machine.
bool is_running(std::uint64_t pid, const std::string& proc = "/proc");

}  // namespace spillway::tools
