// Can this program be preloaded at all? Answered before it starts, from its file, so that nobody hunts for the reason
// why a run was not intercepted.
#pragma once

#include <optional>
#include <string>

namespace spillway::tools {

struct ProgramCheck {
  std::string path;                    // what to execute: resolved in PATH as a shell does
  std::optional<std::string> problem;  // one sentence with reason and remedy
};

// Looks `name` up, follows "#!" lines to the interpreter (and `env` to what it starts), reads each file's ELF headers.
// `search_path` is the value of PATH.
ProgramCheck check_program(const std::string& name, const std::string& search_path);

// Why this program does not start on the simulated device, one sentence with the remedy: the CUDA runtime in it is the
// real one, linked statically. Nothing for a program that uses the shared runtime, or none.
std::optional<std::string> simulated_device_problem(const std::string& path);

}  // namespace spillway::tools
