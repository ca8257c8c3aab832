#include "tools/running_trace.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "policy/trace/frame.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostProcesses = 4096;
constexpr int kMostLooks = 3;

bool is_trace(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::array<char, policy::trace::kMagic.size()> start{};
  return file.read(start.data(), start.size()) && start == policy::trace::kMagic;
}

// Open for writing: the flags of /proc/PID/fdinfo are octal, and end in 1 or 2.
bool is_written(const fs::path& process, const std::string& descriptor) {
  std::ifstream info(process / "fdinfo" / descriptor);
  for (std::string word; info >> word;) {
    if (word != "flags:") continue;
    std::string flags;
    info >> flags;
    return !flags.empty() && (flags.back() == '1' || flags.back() == '2');
  }
  return false;
}

std::optional<RunningTrace> trace_of(const fs::path& process, std::uint64_t pid) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error)) {
    const std::string descriptor = entry.path().filename().string();
    if (!is_written(process, descriptor) || !is_trace(entry.path())) continue;
    const fs::path target = fs::read_symlink(entry.path(), error);
    return RunningTrace{pid, error ? entry.path().string() : target.string(), entry.path().string()};
  }
  return std::nullopt;
}

std::vector<std::uint64_t> children_of(const fs::path& process) {
  std::vector<std::uint64_t> children;
  std::error_code error;
  for (const auto& task : fs::directory_iterator(process / "task", error)) {
    std::ifstream file(task.path() / "children");
    for (std::uint64_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

// Of the process's children, and theirs.
std::vector<RunningTrace> traces_below(const fs::path& process, const std::string& proc) {
  std::vector<RunningTrace> found;
  std::error_code error;
  std::vector<std::uint64_t> open = children_of(process);
  for (std::size_t i = 0; i < open.size() && i < kMostProcesses; ++i) {
    const fs::path child = fs::path(proc) / std::to_string(open[i]);
    if (auto trace = trace_of(child, open[i])) {
      // A forked child has its parent's file open as well, and writes nothing to it.
      const bool known = std::any_of(found.begin(), found.end(), [&](const RunningTrace& other) {
        return fs::equivalent(other.open_as, trace->open_as, error);
      });
      if (!known) found.push_back(std::move(*trace));
    }
    const std::vector<std::uint64_t> more = children_of(child);
    open.insert(open.end(), more.begin(), more.end());
  }
  return found;
}

}  // namespace

bool is_running(std::uint64_t pid, const std::string& proc) {
  // A zombie has ended: it has no open files any more, and only waits to be asked how.
  std::ifstream file(fs::path(proc) / std::to_string(pid) / "stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text.size() < name_end + 3 || text[name_end + 2] != 'Z';
}

RunningTraceSearch find_running_trace(std::uint64_t pid, const std::string& proc) {
  RunningTraceSearch search;
  const std::string name = "process " + std::to_string(pid);
  std::error_code error;
  const fs::path process = fs::path(proc) / std::to_string(pid);
  if (!fs::exists(process, error)) {
    search.problem = name + ": there is none of this number; name a trace file to see how it ended";
    return search;
  }
  fs::directory_iterator readable(process / "fd", error);
  if (error) {
    search.problem = name + ": its open files cannot be read (" + error.message() +
                     "); run as the same user, or name its trace file";
    return search;
  }
  search.trace = trace_of(process, pid);
  if (search.trace) return search;
  // The kernel's list of children may leave some out while others of them end (proc(5)): an empty answer is asked
  // again.
  std::vector<RunningTrace> found;
  for (int times = 0; times < kMostLooks && found.empty(); ++times) found = traces_below(process, proc);
  if (found.size() == 1) {
    search.trace = std::move(found.front());
  } else if (found.empty()) {
    search.problem =
        name + ": writes no trace, nor does a child of it; start the program with spillway run --trace FILE";
  } else {
    search.problem = name + ": " + std::to_string(found.size()) + " of its children write traces; name one of them:";
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 16); ++i)
      search.problem += " " + std::to_string(found[i].pid);
  }
  return search;
}

}  // namespace spillway::tools
