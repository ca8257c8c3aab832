// What this machine offers Spillway: the checks of `spillway doctor`, each a line with a verdict and a remedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::tools {

enum class Verdict : std::uint8_t { ok, warning, problem };

struct Finding {
  std::string check;  // "driver"
  Verdict verdict = Verdict::ok;
  std::string text;    // what was found
  std::string remedy;  // empty if ok
};

// In the order in which one would repair. Never throws; what cannot be looked at is a finding.
std::vector<Finding> examine_machine();

// Whether libcuda.so.1 is found here, as a program's loader looks for it. It stays loaded.
bool driver_is_there();

// Single groups of checks, for the above.
std::vector<Finding> examine_driver();
// 13010 as "13.1".
std::string version_text(int version);
std::vector<Finding> examine_memory();
std::vector<Finding> examine_installation();

// Where the kernel's files are: "/" but in tests.
struct SystemRoot {
  std::string path = "/";
};
// The memory limit of this process's cgroup and its ancestors, in bytes; 0 if there is none.
std::uint64_t cgroup_memory_limit(const SystemRoot& root = {});
std::uint64_t available_host_memory(const SystemRoot& root = {});

}  // namespace spillway::tools
