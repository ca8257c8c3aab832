// What a running process shows of itself, found through its open files: the page that a program under Spillway keeps in
// shared memory, or the trace that it writes. Either can be read from there even where its path is another container's,
// or is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway::tools {

enum class RunningShows : std::uint8_t { page, trace };

struct RunningProcess {
  std::uint64_t pid = 0;  // whose it is: the process asked for, or a child of it
  RunningShows shows = RunningShows::page;
  std::string path;     // as the process knows it, for people
  std::string open_as;  // to read it by
};

// In place of a process, one sentence: there is none, it shows nothing, or several of its children show something. The
// page comes first where there are both.
struct RunningProcessSearch {
  std::optional<RunningProcess> process;
  std::string problem;
};
// `proc` is for tests.
RunningProcessSearch find_running_process(std::uint64_t pid, const std::string& proc = "/proc");

// Whether a process of this number runs on this machine.
bool is_running(std::uint64_t pid, const std::string& proc = "/proc");

}  // namespace spillway::tools
