#include "tools/program_check.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tools/elf_file.hpp"

namespace spillway::tools {
namespace {

constexpr int kDeepestScript = 5;  // the kernel follows no further either

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// As execvp looks: the first executable one; else, for the message, the first file there is.
std::optional<std::string> look_up(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) return name;
  std::optional<std::string> found;
  for (std::size_t at = 0; at <= search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', at), search_path.size());
    const std::string folder = search_path.substr(at, end - at);
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (is_file(path)) {
      if (::access(path.c_str(), X_OK) == 0) return path;
      if (!found) found = path;
    }
    at = end + 1;
  }
  return found;
}

std::optional<std::string> file_problem(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return "cannot run " + path + ": " + std::strerror(errno) + "; check the path of the program";
  }
  if (S_ISDIR(status.st_mode)) return "cannot run " + path + ": it is a folder; name a program";
  if (!S_ISREG(status.st_mode)) return "cannot run " + path + ": it is no regular file; name a program";
  if (::access(path.c_str(), X_OK) != 0) {
    return "cannot run " + path + ": it is not executable; `chmod +x` it, or name its interpreter first";
  }
  // The loader ignores LD_PRELOAD when the program gains rights by being started.
  const bool gains_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid();
  const bool gains_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != ::getegid();
  if (gains_user || gains_group) {
    return "cannot intercept " + path + ": it is " + (gains_user ? "setuid" : "setgid") +
           ", and the loader ignores LD_PRELOAD for it; run a copy without that bit";
  }
  if (::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return "cannot intercept " + path + ": it has file capabilities, and the loader ignores LD_PRELOAD for it; " +
           "run a copy without them";
  }
  return std::nullopt;
}

std::optional<std::string> elf_problem(const std::string& path, const ElfFile& file) {
  if (file.problem && !file.is_elf) return std::nullopt;  // may be run and not read: the loader will tell
  if (file.problem) return "cannot run " + path + ": it " + *file.problem;
  if (!file.is_elf) {
    return "cannot run " + path + ": it is neither an ELF program nor a script with a \"#!\" line; " +
           "name its interpreter first";
  }
  if (!file.is_64_bit) return "cannot intercept " + path + ": it is a 32-bit program; use a 64-bit build of it";
  if (file.machine != own_machine()) {
    return "cannot intercept " + path + ": it is built for " + machine_name(file.machine) + ", this spillway for " +
           machine_name(own_machine()) + "; use a build for this machine";
  }
  if (file.interpreter.empty()) {
    return "cannot intercept " + path + ": it is statically linked, so that no loader preloads anything; " +
           "link it dynamically against the C library";
  }
  if (file.interpreter.find("ld-musl") != std::string::npos) {
    return "cannot intercept " + path + ": it uses the musl C library (" + file.interpreter +
           "), libspillway.so needs glibc; use a glibc build of it";
  }
  if (!is_file(file.interpreter)) {
    return "cannot run " + path + ": its loader " + file.interpreter + " does not exist; install it, or use a build " +
           "for this system";
  }
  return std::nullopt;
}

}  // namespace

ProgramCheck check_program(const std::string& name, const std::string& search_path) {
  ProgramCheck check;
  std::string next = name;
  std::string script;  // whose interpreter is looked at
  for (int depth = 0; depth < kDeepestScript; ++depth) {
    const std::string where = script.empty() ? "" : " (the interpreter of " + script + ")";
    const std::optional<std::string> path = look_up(next, search_path);
    if (!path) {
      check.problem = "cannot find " + (next.empty() ? "a program with an empty name" : next) + where +
                      " in PATH; check its name, or give its path";
      return check;
    }
    if (depth == 0) check.path = *path;
    if (auto problem = file_problem(*path)) {
      check.problem = *problem + where;
      return check;
    }
    const ElfFile file = read_elf(*path);
    if (file.script_interpreter.empty()) {
      if (auto problem = elf_problem(*path, file)) check.problem = *problem + where;
      return check;
    }
    script = *path;
    // `#!/usr/bin/env python3`: python3 is what counts.
    const bool is_env = file.script_interpreter.ends_with("/env");
    const bool plain_name = !file.script_argument.empty() && file.script_argument.front() != '-' &&
                            file.script_argument.find_first_of("= \t") == std::string::npos;
    next = is_env && plain_name && is_file(file.script_interpreter) ? file.script_argument : file.script_interpreter;
  }
  check.problem = "cannot run " + name + ": its interpreters are scripts of scripts; name a program";
  return check;
}

std::optional<std::string> simulated_device_problem(const std::string& path) {
  // A stripped program has no symbols; what nvcc and the runtime leave behind are a section and the names of the
  // errors.
  std::ifstream file(path, std::ios::binary);
  bool kernels = false;
  bool runtime = false;
  constexpr std::size_t kOverlap = 64;  // longer than what is looked for
  std::string block;
  std::string rest;
  do {
    block.assign(std::size_t{1} << 20U, '\0');
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    block.resize(static_cast<std::size_t>(file.gcount()));
    const std::string text = rest + block;
    if (text.find("libcudart.so") != std::string::npos) return std::nullopt;
    kernels = kernels || text.find(".nv_fatbin") != std::string::npos;
    runtime = runtime || text.find("cudaErrorMemoryAllocation") != std::string::npos;
    rest = text.substr(text.size() - std::min(text.size(), kOverlap));
  } while (file);
  if (!kernels || !runtime) return std::nullopt;
  return "cannot run " + path +
         " on the simulated device: the CUDA runtime is linked into it statically, and the real " +
         "one does not start there; link it with `nvcc --cudart shared`";
}

}  // namespace spillway::tools
