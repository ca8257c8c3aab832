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
#include "tools/running_process.hpp"
#include "tools/text_table.hpp"

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
std::string line_for(const TraceSummary& summary, const TracePlace& place) {
  using policy::format_bytes;
  policy::Bytes budget;
  for (const DeviceSummary& device : summary.devices) budget += device.totals.budget;
  const std::string partial = why_partial(summary, place);
  std::string text =
      "spillway[" + (summary.header_is_known ? std::to_string(summary.header.pid) : "unknown") + "] summary" +
      (partial.empty() ? "" : " (partial: " + partial + ")") + ": " + counted(summary.launches, "launch", "launches") +
      ", " + counted(summary.allocations, "allocation", "allocations") + ", at most " +
      format_bytes(summary.live_at_peak.bytes) + " at a time, moved in " + format_bytes(summary.moved_in()) + ", out " +
      format_bytes(summary.moved_out()) + ", managed peak " + format_bytes(summary.resident_peak());
  if (budget > policy::Bytes() && !summary.off()) text += " of a budget of " + format_bytes(budget);
  text += ", on host peak " + format_bytes(summary.on_host_peak());
  if (summary.dropped_events + summary.dropped_frames > 0) {
    text += ", dropped " + grouped(summary.dropped_events + summary.dropped_frames);
  }
  return text;
}

// A frame of a trace is up to 1 MiB, and what did not fit is cut off again: a disk with less was full.
bool is_full(const TracePlace& place) { return place.free && *place.free < policy::Bytes(std::uint64_t{1} << 20U); }

std::string full_text(const TracePlace& place) { return "its disk is full (" + format_bytes(*place.free) + " free)"; }

std::optional<policy::Bytes> free_beside(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  const fs::space_info space = fs::space(folder.empty() ? fs::path(".") : folder, error);
  if (error) return std::nullopt;
  return policy::Bytes(space.available);
}

}  // namespace

std::string why_partial(const TraceSummary& summary, const TracePlace& place) {
  if (summary.whole) return {};
  if (summary.reached_max_size && summary.loss_is_counted) return "its trace is " + summary.completeness;
  if (!summary.end_reason.empty()) return "its trace is damaged: " + summary.completeness;
  const std::string byte = std::to_string(summary.file_bytes);
  if (place.writer_runs) return "still running, its trace is read up to byte " + byte;
  return "tracing stopped at byte " + byte + ": " +
         (is_full(place) ? full_text(place)
                         : "the program was killed, or left without its exit handlers, or its disk was full");
}

std::string why_empty(const TracePlace& place) {
  const std::string full =
      is_full(place) ? full_text(place) + "; " : "its disk was full, or the program was killed as it began; ";
  return full + "make room, or name another place with --trace";
}

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
    TracePlace place{free_beside(path)};
    std::error_code error;
    if (fs::file_size(path, error) == 0 && !error) {
      complain("no summary: the trace " + path + " is empty: " + why_empty(place), kSuccess);
      continue;
    }
    const SummaryReading reading = summarize(path);
    if (reading.problem) {
      complain("no summary: " + *reading.problem, kSuccess);
    } else {
      place.writer_runs = find_running_process(reading.summary.header.pid).process.has_value();
      std::fprintf(stderr, "%s\n", harmless(line_for(reading.summary, place)).c_str());
    }
    if (own_folder_.empty()) complain("trace: " + path, kSuccess);
  }
  if (any) return;
  std::error_code error;
  if (const auto problem = trace_place_problem(pattern_)) {
    complain("no trace was written, so nothing is known of the run: " + *problem, kSuccess);
  } else if (fs::is_character_file(pattern_, error)) {
    complain("no summary: it is read from the trace, and " + policy::quoted(pattern_) +
                 " is a device, which keeps none; name a file with --trace, or leave it out",
             kSuccess);
  } else if (const TracePlace place{free_beside(pattern_)}; is_full(place)) {
    complain("no summary: no trace is at " + policy::quoted(pattern_) + ", and " + why_empty(place), kSuccess);
  } else {
    complain(
        "no CUDA call was seen: the program made none, or what made them was not intercepted (a child process "
        "started without LD_PRELOAD, a setuid or static program); `spillway doctor` checks this machine",
        kSuccess);
  }
}

}  // namespace spillway::tools
