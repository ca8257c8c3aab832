// Where libspillway.so is, and how it gets into a program's environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway::tools {

struct FoundPath {
  std::string path;
  std::optional<std::string> problem;  // one sentence, with the remedy
};

// libspillway.so beside this command: ../lib in the build tree, ../<library folder> where installed.
FoundPath find_library();
// The folder of the simulated device's libcuda.so.1, beside the library.
FoundPath find_simulated_device(const std::string& library);

// `path` itself if it has none of `separators`; else a symbolic link to it, in a folder of this user's own, whose path
// has none. The loader splits LD_PRELOAD at blanks and colons and knows no way to quote them.
FoundPath without_separators(const std::string& path, const std::string& separators);

// `list` with `path` at its end or start, once.
std::string appended(const std::string& list, const std::string& path);
std::string prepended(const std::string& list, const std::string& path);

// Sets what makes a program start under the library, on the simulated device if so wanted. Returns what is wrong, with
// the remedy, or nothing.
enum class RunsOn : std::uint8_t { gpu, simulated_device };
std::optional<std::string> preload_by_environment(RunsOn device);

}  // namespace spillway::tools
