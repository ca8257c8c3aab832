// Files that people name. A named pipe, a terminal or a device would wait for ever or never end: only regular files are
// opened, and without waiting.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace spillway::tools {

inline constexpr const char* kIsFolder = "is a folder";

// A descriptor to read from, or -1 and why: kIsFolder, "is no regular file", or what the system says.
int open_regular(const std::string& path, std::string& why);

// The first `most` bytes of the file at most; nothing, and why, if they cannot be read.
std::optional<std::string> read_regular(const std::string& path, std::size_t most, std::string& why);

}  // namespace spillway::tools
