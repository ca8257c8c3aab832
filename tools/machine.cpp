#include "tools/machine.hpp"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "policy/settings.hpp"
#include "tools/elf_file.hpp"
#include "tools/preload.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;
using policy::Bytes;
using policy::format_bytes;

constexpr std::uint64_t kLittleHostMemory = std::uint64_t{8} << 30;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "max", a number, or nothing; version 1 writes a huge number for none.
std::uint64_t limit_in(const fs::path& path) {
  const std::string text = first_line(path);
  if (text.empty() || text == "max" || text.find_first_not_of("0123456789") != std::string::npos) return 0;
  const std::uint64_t bytes = std::strtoull(text.c_str(), nullptr, 10);
  return bytes >= std::numeric_limits<std::int64_t>::max() / 2 ? 0 : bytes;
}

std::uint64_t tightest(const fs::path& mount, fs::path group, const char* file) {
  std::uint64_t tight = 0;
  for (group = group.relative_path();; group = group.parent_path()) {
    const std::uint64_t limit = limit_in(mount / group / file);
    if (limit != 0 && (tight == 0 || limit < tight)) tight = limit;
    if (group.empty()) return tight;
  }
}

Finding writable_folder() {
  const char* base = std::getenv("TMPDIR");
  std::string pattern = std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/spillway-doctor-XXXXXX";
  const std::string folder = fs::path(pattern).parent_path().string();
  const int file = ::mkstemp(pattern.data());
  if (file < 0) {
    return {"trace folder", Verdict::warning, folder + " cannot be written",
            "set TMPDIR, or give traces a place with --trace"};
  }
  ::close(file);
  ::unlink(pattern.c_str());
  return {"trace folder", Verdict::ok, folder + " can be written", ""};
}

Finding profiler_library() {
  static constexpr std::array kNames = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
  std::vector<std::string> folders = {""};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(name)) folders.push_back(std::string(home) + "/extras/CUPTI/lib64/");
  }
  folders.emplace_back("/usr/local/cuda/extras/CUPTI/lib64/");
  for (const std::string& folder : folders) {
    for (const char* name : kNames) {
      // It stays: what it has allocated for itself would be lost, and LeakSanitizer is right to say so.
      if (::dlopen((folder + name).c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) continue;
      return {"CUPTI", Verdict::ok, folder + name, ""};
    }
  }
  return {"CUPTI", Verdict::warning,
          "libcupti is not found: kernel times come from the driver's events, page faults are not known",
          "install it with the CUDA toolkit, or set CUDA_HOME; programs run without it"};
}

int compare_versions(const std::string& a, const std::string& b) {
  int a_major = 0, a_minor = 0, b_major = 0, b_minor = 0;
  if (std::sscanf(a.c_str(), "%d.%d", &a_major, &a_minor) != 2 ||
      std::sscanf(b.c_str(), "%d.%d", &b_major, &b_minor) != 2) {
    return 0;
  }
  return a_major != b_major ? a_major - b_major : a_minor - b_minor;
}

Finding preloaded_library() {
  const FoundPath library = find_library();
  if (library.problem) return {"library", Verdict::problem, "libspillway.so is not found", *library.problem};
  const ElfFile file = read_elf(library.path);
  if (!file.is_elf || file.problem || file.machine != own_machine()) {
    return {"library", Verdict::problem, library.path + " is no library for this machine", "install spillway anew"};
  }
  const std::string here = ::gnu_get_libc_version();
  const std::string floor = file.highest_glibc.empty() ? "any" : file.highest_glibc;
  const std::string text = library.path + " needs glibc " + floor + ", this system has " + here;
  if (compare_versions(floor, here) > 0) {
    return {"library", Verdict::problem, text, "use a build for this system's C library"};
  }
  return {"library", Verdict::ok, text, ""};
}

}  // namespace

std::uint64_t cgroup_memory_limit(const SystemRoot& root) {
  const fs::path base(root.path);
  std::ifstream groups(base / "proc/self/cgroup");
  std::uint64_t tight = 0;
  const auto consider = [&tight](std::uint64_t limit) {
    if (limit != 0 && (tight == 0 || limit < tight)) tight = limit;
  };
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) consider(tightest(base / "sys/fs/cgroup", group, "memory.max"));
    if (controllers == "memory") consider(tightest(base / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
  }
  return tight;
}

std::uint64_t available_host_memory(const SystemRoot& root) {
  std::ifstream file(fs::path(root.path) / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  }
  return 0;
}

std::vector<Finding> examine_memory() {
  const std::uint64_t available = available_host_memory();
  const std::uint64_t limit = cgroup_memory_limit();
  const std::uint64_t usable = limit != 0 && limit < available ? limit : available;
  std::vector<Finding> findings;
  const bool little = usable < kLittleHostMemory;
  findings.push_back(
      {"host memory", little ? Verdict::warning : Verdict::ok, format_bytes(Bytes(available)) + " available",
       little ? "what spills lives in host memory: free some, or expect early out-of-memory codes" : ""});
  const bool binding = limit != 0 && limit < available;
  findings.push_back({"memory limit", binding ? Verdict::warning : Verdict::ok,
                      limit == 0 ? "no cgroup limit" : "cgroup limit of " + format_bytes(Bytes(limit)),
                      binding ? "the cgroup holds less than the machine: raise it if programs spill more" : ""});
  return findings;
}

std::vector<Finding> examine_installation() { return {preloaded_library(), profiler_library(), writable_folder()}; }

std::vector<Finding> examine_machine() {
  std::vector<Finding> findings = examine_driver();
  for (const auto& more : {examine_memory(), examine_installation()})
    findings.insert(findings.end(), more.begin(), more.end());
  return findings;
}

}  // namespace spillway::tools
