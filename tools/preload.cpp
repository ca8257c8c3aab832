#include "tools/preload.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "policy/settings.hpp"
#include "tools/simulated_device/memory_size.hpp"
#include "tools/simulated_device/variables.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

bool in_list(const std::string& list, const std::string& path, const char* separators) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find_first_of(separators, at), list.size());
    if (list.compare(at, end - at, path) == 0) return true;
    at = end + 1;
  }
  return false;
}

// A folder that only this user can have made or changed: in /tmp anybody else may have been there first.
std::optional<std::string> private_folder_problem(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0) {
    return "it is not a folder of this user's alone";
  }
  return std::nullopt;
}

std::string name_for(const std::string& path) {
  std::size_t hash = std::hash<std::string>{}(path);
  std::string name;
  for (; hash != 0; hash /= 36) name += "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
  return name;
}

}  // namespace

FoundPath find_library() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path prefix = self.parent_path().parent_path();
  const std::array folders = {prefix / "lib", prefix / SPILLWAY_LIBRARY_FOLDER, prefix / "lib64"};
  for (const fs::path& folder : folders) {
    const fs::path path = folder / "libspillway.so";
    if (fs::is_regular_file(path, error)) return {path.string(), {}};
  }
  return {{},
          "cannot find libspillway.so in " + folders[0].string() + " or " + folders[1].string() +
              "; build the shim (it needs the CUDA toolkit), or install spillway anew"};
}

FoundPath find_simulated_device(const std::string& library) {
  const fs::path folder = fs::path(library).parent_path() / "spillway" / "simulated";
  std::error_code error;
  if (fs::exists(folder / "libcuda.so.1", error)) return {folder.string(), {}};
  return {{},
          "cannot find the simulated device (" + (folder / "libcuda.so.1").string() +
              "); build spillway with the CUDA toolkit, or leave --simulated out"};
}

FoundPath without_separators(const std::string& path, const std::string& separators) {
  if (path.find_first_of(separators) == std::string::npos) return {path, {}};
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string base = runtime != nullptr && *runtime == '/' ? runtime : "/tmp";
  if (base.find_first_of(separators) != std::string::npos || ::access(base.c_str(), W_OK) != 0) base = "/tmp";
  const std::string folder = base + "/spillway-" + std::to_string(::geteuid());
  const std::string trouble =
      "cannot preload " + path + ": the loader splits its path at blanks and colons, and no link ";
  if (const auto problem = private_folder_problem(folder)) {
    return {
        {},
        trouble + "to it can be made in " + folder + " (" + *problem + "); install spillway under a path without them"};
  }
  // One link for each library, for good: programs started earlier still use it.
  const std::string link = folder + "/" + name_for(path);
  std::error_code error;
  if (fs::read_symlink(link, error) == path) return {link, {}};
  const std::string fresh = link + "." + std::to_string(::getpid());
  if (::symlink(path.c_str(), fresh.c_str()) != 0 || ::rename(fresh.c_str(), link.c_str()) != 0) {
    return {{},
            trouble + "to it can be made at " + link + " (" + std::strerror(errno) +
                "); install spillway under a path without them"};
  }
  return {link, {}};
}

std::string appended(const std::string& list, const std::string& path) {
  if (list.empty() || list == path) return path;
  return in_list(list, path, ": ") ? list : list + ":" + path;
}

std::string prepended(const std::string& list, const std::string& path) {
  if (list.empty()) return path;
  return in_list(list, path, ":;") ? list : path + ":" + list;
}

namespace {

// A name of the simulated device's that is none, in the environment.
std::optional<std::string> misspelt_variable() {
  std::vector<std::string_view> endings;
  const std::string_view prefix = simulated::kVariablePrefix;
  for (const auto& number : simulated::kNumberVariables)
    endings.push_back(std::string_view(number.name).substr(prefix.size()));
  for (const std::string_view name : simulated::kOtherVariables) endings.push_back(name.substr(prefix.size()));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view name(*entry);
    name = name.substr(0, name.find('='));
    if (!name.starts_with(prefix)) continue;
    const std::string_view ending = name.substr(prefix.size());
    if (std::find(endings.begin(), endings.end(), ending) != endings.end()) continue;
    const auto near = policy::nearest(ending, endings);
    return std::string(name) + ": is no variable of the simulated device; " +
           (near ? "did you mean " + std::string(prefix) + std::string(*near) + "?" : "unset it");
  }
  return std::nullopt;
}

std::optional<std::string> simulated_variables_problem() {
  for (const simulated::NumberVariable& number : simulated::kNumberVariables) {
    const char* text = std::getenv(number.name);
    if (text == nullptr || *text == '\0') continue;
    if (const auto reading = simulated::read_number(number, text); !reading.problem.empty()) return reading.problem;
  }
  return misspelt_variable();
}

}  // namespace

std::optional<std::string> preload_by_environment(RunsOn device) {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  const FoundPath library = find_library();
  if (library.problem) return library.problem;
  const FoundPath usable = without_separators(library.path, " :\t\n");
  if (usable.problem) return usable.problem;
  ::setenv("LD_PRELOAD", appended(environment("LD_PRELOAD"), usable.path).c_str(), 1);
  if (device == RunsOn::gpu) return std::nullopt;
  if (const std::string memory = environment(simulated::kMemoryVariable); !memory.empty()) {
    if (const auto size = simulated::read_memory_size(memory); !size.problem.empty()) return size.problem;
  }
  if (auto problem = simulated_variables_problem()) return problem;
  const FoundPath found = find_simulated_device(library.path);
  if (found.problem) return found.problem;
  const FoundPath folder = without_separators(found.path, ":;");
  if (folder.problem) return folder.problem;
  ::setenv("LD_LIBRARY_PATH", prepended(environment("LD_LIBRARY_PATH"), folder.path).c_str(), 1);
  return std::nullopt;
}

}  // namespace spillway::tools
