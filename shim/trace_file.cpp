#include "shim/trace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace spillway::shim {
namespace {

constexpr int kMostNumberedNames = 10'000;
constexpr int kLowestDescriptor = 512;

bool is_character_device(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISCHR(status.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

int open_new(const std::string& path) { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }

// "decode.swt" becomes "decode.1.swt", so that it stays a trace by its name.
std::string numbered(const std::string& path, int number) {
  constexpr std::string_view kEnding = ".swt";
  const std::string_view stem =
      path.ends_with(kEnding) ? std::string_view(path).substr(0, path.size() - kEnding.size()) : std::string_view(path);
  return std::string(stem) + "." + std::to_string(number) + path.substr(stem.size());
}

// To a number that programs do not expect to be theirs. Keeps the low one where the limit on descriptors is lower.
int move_up(int descriptor) {
  const int high = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (high < 0) return descriptor;
  ::close(descriptor);
  return high;
}

const char* remedy_for(int error) {
  switch (error) {
    case ENOENT:
      return "create the folder, or name another one with --trace (SPILLWAY_TRACE_PATH)";
    case EISDIR:
      return "name a file in it with --trace (SPILLWAY_TRACE_PATH), such as \"spillway.%p.swt\"";
    case ENOSPC:
    case EDQUOT:
      return "make room, or name another place with --trace (SPILLWAY_TRACE_PATH)";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    default:
      return "name another place with --trace (SPILLWAY_TRACE_PATH)";
  }
}

}  // namespace

std::string TraceFile::problem(const char* doing, int error) const {
  return "tracing is off: cannot " + std::string(doing) + " " + path_ + " (" + std::strerror(error) +
         "): " + remedy_for(error);
}

std::optional<std::string> TraceFile::open(const std::string& path) {
  path_ = path;
  // It exists, but a numbered name beside it is not what was meant.
  if (is_folder(path)) return problem("create", EISDIR);
  int descriptor = open_new(path_);
  if (descriptor < 0 && errno == EEXIST && is_character_device(path)) {
    descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  }
  for (int number = 1; descriptor < 0 && errno == EEXIST && number <= kMostNumberedNames; ++number) {
    path_ = numbered(path, number);
    descriptor = open_new(path_);
  }
  if (descriptor < 0) return problem("create", errno);
  descriptor_ = move_up(descriptor);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return problem("look at", errno);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return std::nullopt;
}

bool TraceFile::still_ours() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

std::optional<std::string> TraceFile::append(std::span<const std::byte> bytes) {
  if (!still_ours()) {
    descriptor_ = -1;  // not ours to close
    return "tracing is off: the program closed the descriptor of " + path_ + "; the trace ends at byte " +
           std::to_string(size_);
  }
  const std::size_t whole = bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : EIO;
      std::string text = problem("write to", error);
      // A device cannot be cut; then the trace is read up to its last whole frame all the same.
      if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) errno = 0;
      close();
      return text + "; the trace ends at byte " + std::to_string(size_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  size_ += whole;
  return std::nullopt;
}

void TraceFile::close() {
  if (descriptor_ >= 0 && still_ours()) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace spillway::shim
