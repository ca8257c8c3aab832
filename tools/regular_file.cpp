#include "tools/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spillway::tools {

int open_regular(const std::string& path, std::string& why) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) {
    why = std::strerror(errno);
  } else if (S_ISDIR(status.st_mode)) {
    why = kIsFolder;
  } else if (!S_ISREG(status.st_mode)) {
    why = "is no regular file";
  } else {
    return file;
  }
  if (file >= 0) ::close(file);
  return -1;
}

std::optional<std::string> read_regular(const std::string& path, std::size_t most, std::string& why) {
  const int file = open_regular(path, why);
  if (file < 0) return std::nullopt;
  std::string text(most, '\0');
  std::size_t size = 0;
  ssize_t got = 1;
  while (size < most && got != 0) {
    got = ::read(file, text.data() + size, most - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (got < 0) why = std::strerror(errno);
  ::close(file);
  if (got < 0) return std::nullopt;
  text.resize(size);
  return text;
}

}  // namespace spillway::tools
