// Reading a small file of the user's inside the program.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace spillway::shim {

// Its text, or nothing and why ("Permission denied"). Only regular files are read: a named pipe would hold the program
// up for ever. A file longer than `most` comes as somewhat more than that. No exceptions but for want of memory.
std::optional<std::string> read_text_file(const char* path, std::size_t most, const char*& why);

}  // namespace spillway::shim
