#include "shim/host_memory.hpp"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace spillway::shim {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// By read(2): the program may have replaced or instrumented stdio. Empty, and errno, where it cannot be opened.
std::string read_file(const std::string& path) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(file, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(file);
  return text;
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// The number after `key` at the start of a line; "max" and absence are no limit.
std::optional<std::uint64_t> field(std::string_view text, std::string_view key) {
  for (std::size_t line = 0; line < text.size();) {
    const std::string_view rest = text.substr(line);
    if (rest.starts_with(key)) return leading_number(rest.substr(key.size()));
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    line += end + 1;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* hierarchy;  // below sys/fs/cgroup
  const char* limit;
  const char* used;
  const char* reclaimable;  // key in memory.stat: page cache, which the kernel gives up before it kills
};
constexpr GroupFiles kVersion2{"", "memory.max", "memory.current", "inactive_file "};
constexpr GroupFiles kVersion1{"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

void consider_group(const std::string& folder, const GroupFiles& files, HostMemory& memory) {
  const auto limit = leading_number(read_file(folder + "/" + files.limit));
  const auto used = leading_number(read_file(folder + "/" + files.used));
  if (!limit || !used || *limit >= kUnlimited / 4) return;
  const std::uint64_t cache = field(read_file(folder + "/memory.stat"), files.reclaimable).value_or(0);
  const std::uint64_t kept = *used > cache ? *used - cache : 0;
  const policy::Bytes left(*limit > kept ? *limit - kept : 0);
  if (left >= memory.available) return;
  memory.available = left;
  memory.binding_limit = folder + "/" + files.limit;
}

// Every group from the process's own up to the root: a parent's limit binds as well.
void consider_hierarchy(const std::string& root, std::string path, const GroupFiles& files, HostMemory& memory) {
  const std::string base = root + "sys/fs/cgroup" + files.hierarchy;
  for (;;) {
    consider_group(base + (path == "/" ? "" : path), files, memory);
    if (path.empty() || path == "/") return;
    const std::size_t slash = path.rfind('/');
    path = slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
  }
}

policy::Bytes free_by_system_call() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return {};
  return policy::Bytes((std::uint64_t{info.freeram} + info.bufferram) * info.mem_unit);
}

}  // namespace

HostMemory read_host_memory(const std::string& root) {
  HostMemory memory;
  errno = ENODATA;  // of a file without the line
  const auto available = field(read_file(root + "proc/meminfo"), "MemAvailable:");
  memory.proc_error = available ? 0 : errno;
  memory.available = available ? policy::Bytes(*available * 1024) : free_by_system_call();
  memory.binding_limit = "free memory";
  const std::string groups = read_file(root + "proc/self/cgroup");
  if (groups.empty()) {
    consider_hierarchy(root, "/", kVersion2, memory);
    consider_hierarchy(root, "/", kVersion1, memory);
  }
  for (std::size_t line = 0; line < groups.size();) {
    const std::size_t end = std::min(groups.find('\n', line), groups.size());
    const std::string_view entry = std::string_view(groups).substr(line, end - line);
    line = end + 1;
    const std::size_t first = entry.find(':');
    const std::size_t second = first == std::string_view::npos ? first : entry.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = entry.substr(first + 1, second - first - 1);
    const std::string path(entry.substr(second + 1));
    if (controllers.empty()) consider_hierarchy(root, path, kVersion2, memory);
    if (("," + std::string(controllers) + ",").find(",memory,") != std::string::npos) {
      consider_hierarchy(root, path, kVersion1, memory);
    }
  }
  return memory;
}

}  // namespace spillway::shim
