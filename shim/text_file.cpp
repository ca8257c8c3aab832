#include "shim/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace spillway::shim {

std::optional<std::string> read_text_file(const char* path, std::size_t most, const char*& why) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    why = file >= 0 && status.st_mode != 0 ? "it is no regular file" : std::strerror(errno);
    if (file >= 0) ::close(file);
    return std::nullopt;
  }
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(file, buffer.data(), buffer.size())) > 0 && text.size() <= most) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (got < 0) why = std::strerror(errno);
  ::close(file);
  if (got < 0) return std::nullopt;
  return text;
}

}  // namespace spillway::shim
