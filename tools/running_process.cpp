#include "tools/running_process.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "policy/run_page.hpp"
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

// The link of an anonymous file is "/memfd:NAME (deleted)".
bool is_page(const fs::path& target) {
  return target.string().starts_with("/memfd:" + std::string(policy::kRunPageName));
}

std::optional<RunningProcess> shown_by(const fs::path& process, std::uint64_t pid) {
  std::optional<RunningProcess> trace;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error)) {
    const fs::path link = entry.path();
    const fs::path target = fs::read_symlink(link, error);
    if (!error && is_page(target)) return RunningProcess{pid, RunningShows::page, target.string(), link.string()};
    if (trace || !is_written(process, link.filename().string()) || !is_trace(link)) continue;
    trace = RunningProcess{pid, RunningShows::trace, error ? link.string() : target.string(), link.string()};
  }
  return trace;
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
std::vector<RunningProcess> shown_below(const fs::path& process, const std::string& proc) {
  std::vector<RunningProcess> found;
  std::error_code error;
  std::vector<std::uint64_t> open = children_of(process);
  for (std::size_t i = 0; i < open.size() && i < kMostProcesses; ++i) {
    const fs::path child = fs::path(proc) / std::to_string(open[i]);
    if (auto shown = shown_by(child, open[i])) {
      // A forked child may have its parent's file open as well, and writes nothing to it.
      const bool known = std::any_of(found.begin(), found.end(), [&](const RunningProcess& other) {
        return fs::equivalent(other.open_as, shown->open_as, error);
      });
      if (!known) found.push_back(std::move(*shown));
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

RunningProcessSearch find_running_process(std::uint64_t pid, const std::string& proc) {
  RunningProcessSearch search;
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
  search.process = shown_by(process, pid);
  if (search.process) return search;
  // The kernel's list of children may leave some out while others of them end (proc(5)): an empty answer is asked
  // again.
  std::vector<RunningProcess> found;
  for (int times = 0; times < kMostLooks && found.empty(); ++times) found = shown_below(process, proc);
  if (found.size() == 1) {
    search.process = std::move(found.front());
  } else if (found.empty()) {
    search.problem = name +
                     ": is not under Spillway, nor is a child of it, or it has not used CUDA yet; start the program "
                     "with spillway run";
  } else {
    search.problem =
        name + ": " + std::to_string(found.size()) + " of its children are under Spillway; name one of them:";
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 16); ++i)
      search.problem += " " + std::to_string(found[i].pid);
  }
  return search;
}

}  // namespace spillway::tools
