#include "tools/run_summary.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "policy/settings.hpp"
#include "tools/command.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

// Does `name` fit a pattern in which a placeholder stands for any text? Numbers after the name count too: "a.swt.1".
bool fits(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) {
    return name.empty() ||
           (name.front() == '.' && name.size() > 1 && name.find_first_not_of("0123456789", 1) == name.npos);
  }
  if (pattern.front() == '%' && pattern.size() > 1 && std::strchr("pthr", pattern[1]) != nullptr) {
    for (std::size_t skip = 0; skip <= name.size(); ++skip) {
      if (fits(name.substr(skip), pattern.substr(2))) return true;
    }
    return false;
  }
  const std::size_t step = pattern.starts_with("%%") ? 2 : 1;
  return !name.empty() && name.front() == pattern.front() && fits(name.substr(1), pattern.substr(step));
}

// "a.1.swt", the name where "a.swt" exists, as "a.swt".
std::string without_number(const std::string& name) {
  constexpr std::string_view kEnding = ".swt";
  if (!name.ends_with(kEnding)) return name;
  const std::string stem = name.substr(0, name.size() - kEnding.size());
  const std::size_t dot = stem.rfind('.');
  if (dot == std::string::npos || dot + 1 == stem.size()) return name;
  if (stem.find_first_not_of("0123456789", dot + 1) != std::string::npos) return name;
  return stem.substr(0, dot) + std::string(kEnding);
}

// Begins as the lines of the process itself do, which stand above it.
std::string line_for(const TraceSummary& summary) {
  using policy::format_bytes;
  policy::Bytes budget;
  for (const DeviceSummary& device : summary.devices) budget += device.totals.budget;
  std::string text = "spillway[" + std::to_string(summary.header.pid) +
                     "] summary: " + counted(summary.launches, "launch", "launches") + ", " +
                     counted(summary.allocations, "allocation", "allocations") + ", at most " +
                     format_bytes(summary.live_at_peak.bytes) + " at a time, moved in " +
                     format_bytes(summary.moved_in()) + ", out " + format_bytes(summary.moved_out()) +
                     ", managed peak " + format_bytes(summary.resident_peak());
  if (budget > policy::Bytes() && !summary.off()) text += " of a budget of " + format_bytes(budget);
  text += ", on host peak " + format_bytes(summary.on_host_peak());
  if (summary.dropped_events + summary.dropped_frames > 0) {
    text += ", dropped " + grouped(summary.dropped_events + summary.dropped_frames);
  }
  return text + (summary.whole ? "" : " (trace " + summary.completeness + ")");
}

}  // namespace

std::optional<std::string> trace_place_problem(const std::string& pattern) {
  if (!pattern.starts_with('/')) return std::nullopt;
  std::string folder;
  const std::string written = fs::path(pattern).parent_path().string();
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] == '%' && (i + 1 == written.size() || written[++i] != '%')) return std::nullopt;
    folder += written[i];
  }
  std::error_code error;
  const std::string place = "the trace cannot be written to " + policy::quoted(pattern) + ": ";
  if (fs::is_directory(pattern, error)) return place + "it is a folder; name a file in it, such as %p.swt";
  for (const char* stream : {"/dev/std", "/dev/fd/", "/proc/self/fd/"}) {
    if (pattern.starts_with(stream)) return place + "it is a stream of the program's own; name a file";
  }
  if (fs::is_character_file(pattern, error)) return std::nullopt;
  const std::string what = place + policy::quoted(folder);
  if (!fs::exists(folder, error)) return what + " does not exist; create the folder, or name another one";
  if (!fs::is_directory(folder, error)) return what + " is no folder; name another place";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return what + " cannot be written to (" + std::strerror(errno) + "); name another folder, or change its rights";
  }
  // Rights are not all that it takes: /proc lets root write, and has no room for a file.
  std::string probe = folder + "/.spillway-XXXXXX";
  const int file = ::mkstemp(probe.data());
  if (file < 0) return what + " takes no file (" + std::strerror(errno) + "); name another folder";
  ::close(file);
  ::unlink(probe.c_str());
  return std::nullopt;
}

RunSummary::~RunSummary() {
  std::error_code ignored;
  if (!own_folder_.empty()) fs::remove_all(own_folder_, ignored);
}

std::optional<std::string> RunSummary::prepare() {
  if (pattern_.empty()) {
    const char* base = std::getenv("TMPDIR");
    std::string folder = std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/spillway-run-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) {
      return "cannot make " + folder + " for the trace that --summary reads (" + std::strerror(errno) +
             "); set TMPDIR, or give --trace";
    }
    own_folder_ = folder;
    pattern_ = folder + "/%p.swt";
    ::setenv("SPILLWAY_TRACE_PATH", pattern_.c_str(), 1);
  }
  before_ = traces();
  return std::nullopt;
}

std::vector<std::string> RunSummary::traces() const {
  const fs::path pattern(pattern_);
  std::vector<std::string> found;
  std::error_code error;
  const fs::path folder = pattern.has_parent_path() ? pattern.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::string wanted = pattern.filename().string();
    if (fits(name, wanted) || fits(without_number(name), wanted)) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void RunSummary::report() const {
  bool any = false;
  for (const std::string& path : traces()) {
    if (std::binary_search(before_.begin(), before_.end(), path)) continue;
    any = true;
    const SummaryReading reading = summarize(path);
    if (reading.problem) {
      complain(*reading.problem, kSuccess);
    } else {
      std::fprintf(stderr, "%s\n", harmless(line_for(reading.summary)).c_str());
    }
    if (own_folder_.empty()) complain("trace: " + path, kSuccess);
  }
  if (any) return;
  if (const auto problem = trace_place_problem(pattern_)) {
    complain("no trace was written, so nothing is known of the run: " + *problem, kSuccess);
  } else {
    complain(
        "no CUDA call was seen: the program made none, or what made them was not intercepted (a child process "
        "started without LD_PRELOAD, a setuid or static program); `spillway doctor` checks this machine",
        kSuccess);
  }
}

}  // namespace spillway::tools
