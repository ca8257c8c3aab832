#include "tools/trace_source.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "policy/settings.hpp"
#include "tools/names.hpp"
#include "tools/regular_file.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;
using policy::trace::ReadReport;
using policy::trace::Record;
using policy::trace::RecordKind;
using policy::trace::TraceReader;

constexpr std::uint64_t kLongFile = std::uint64_t{64} << 20;  // from here on a person wants to see progress

class File {
 public:
  explicit File(const std::string& path) : descriptor_(open_regular(path, problem_)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] int error() const { return error_; }

  std::size_t read(std::span<std::byte> place) {
    while (true) {
      const ssize_t got = ::read(descriptor_, place.data(), place.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno == EINTR) continue;
      error_ = errno;
      return 0;
    }
  }

 private:
  std::string problem_;  // why it is not open
  int descriptor_;
  int error_ = 0;
};

// One line on a terminal that comes and goes.
class Progress {
 public:
  explicit Progress(std::uint64_t size) : size_(size), shown_(size >= kLongFile && ::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_ && percent_ > 0) std::fprintf(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void at(std::uint64_t bytes) {
    if (!shown_) return;
    const std::uint64_t percent = std::min<std::uint64_t>(100, bytes * 100 / size_);
    if (percent == percent_) return;
    percent_ = percent;
    constexpr std::uint64_t kMarks = 40;
    const std::string full(percent * kMarks / 100, '#');
    const std::string rest(kMarks - full.size(), '.');
    std::fprintf(stderr, "\rreading [%s%s] %3llu%%", full.c_str(), rest.c_str(),
                 static_cast<unsigned long long>(percent));
    std::fflush(stderr);
  }

 private:
  std::uint64_t size_;
  bool shown_;
  std::uint64_t percent_ = 0;
};

bool looks_like_trace(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(".swt");
  if (at == std::string::npos) return false;
  const std::string rest = name.substr(at + 4);
  return rest.empty() ||
         (rest.size() > 1 && rest.front() == '.' && rest.find_first_not_of("0123456789", 1) == std::string::npos);
}

}  // namespace

std::optional<std::string> read_trace(const std::string& path, const TraceVisitor& visitor) {
  File file(path);
  struct stat status {};
  if (!file.is_open()) {
    if (file.problem() == kIsFolder) return path + ": is a folder; name a trace file in it";
    const bool forbidden = file.problem() == std::strerror(EACCES);
    return path + ": cannot be opened: " + file.problem() +
           (forbidden ? "; ask its owner to let you read it" : "; check the path of the trace");
  }
  if (::fstat(file.descriptor(), &status) != 0) return path + ": cannot be read: " + std::strerror(errno);
  auto progress = std::make_unique<Progress>(static_cast<std::uint64_t>(status.st_size));
  std::uint64_t bytes = 0;
  TraceReader reader([&](std::span<std::byte> place) -> std::size_t {
    if (visitor.wants_more && !visitor.wants_more()) return 0;
    std::size_t got = file.read(place);
    while (got == 0 && file.error() == 0 && visitor.wait_for_more) {
      progress.reset();  // the line belongs to whoever waits now
      if (!visitor.wait_for_more()) return 0;
      got = file.read(place);
    }
    bytes += got;
    if (progress) progress->at(bytes);
    return got;
  });
  if (const auto error = reader.open()) {
    return path + ": byte " + std::to_string(error->offset) + ": " + error->problem;
  }
  if (visitor.opened) visitor.opened(reader);
  Record next;
  while (reader.next(next)) {
    if (visitor.record) visitor.record(next);
  }
  if (file.error() != 0) return path + ": cannot be read: " + std::strerror(file.error());
  if (visitor.finished) visitor.finished(reader);
  return std::nullopt;
}

std::optional<std::string> read_trace(const std::string& path, const std::function<void(const Record&)>& record,
                                      const std::function<void(const TraceReader&)>& finished) {
  return read_trace(path, TraceVisitor{{}, record, finished, {}, {}});
}

TraceList list_traces(const std::vector<std::string>& arguments) {
  TraceList list;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!fs::is_directory(argument, error)) {
      list.paths.push_back(argument);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(argument, error)) {
      std::error_code ignored;
      if (entry.is_regular_file(ignored) && looks_like_trace(entry.path())) inside.push_back(entry.path().string());
    }
    if (error) {
      list.problems.push_back(argument + ": cannot be listed: " + error.message());
    } else if (inside.empty()) {
      list.problems.push_back(argument +
                              ": holds no trace (*.swt); name a trace file, or the folder that a run wrote into");
    }
    std::sort(inside.begin(), inside.end());
    list.paths.insert(list.paths.end(), inside.begin(), inside.end());
  }
  return list;
}

std::optional<std::string> one_trace(std::string& path) {
  const TraceList list = list_traces({path});
  if (!list.problems.empty()) return list.problems.front();
  if (list.paths.size() != 1)
    return path + ": holds " + std::to_string(list.paths.size()) + " traces; name one of them, such as " +
           list.paths.front();
  path = list.paths.front();
  return std::nullopt;
}

std::string as_far_as_it_goes(const std::string& path, const char* done, const std::string& completeness) {
  return completeness == "whole" ? std::string() : path + ": " + done + " as far as it goes: " + completeness;
}

std::string why_no_end(const TraceReader& reader) {
  return reader.report().damaged_frames > 0 ? "its end is damaged, or it was killed, or its disk was full"
                                            : "killed, or its disk was full";
}

// Frames are lost to a slow disk as well: the limit must be near, and nothing written after the loss.
bool reached_max_size(const TraceReader& reader) {
  const std::uint64_t most = settings_of(reader.header()).trace_max_size.count();
  constexpr std::uint64_t kFrameAndEnd = std::uint64_t{2} << 20;
  return most != 0 && reader.ends_in_loss() && reader.report().bytes + kFrameAndEnd >= most;
}

std::string completeness(const TraceReader& reader) {
  const bool full = reached_max_size(reader);
  if (reader.whole() && !full) return "whole";
  const ReadReport& report = reader.report();
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (full) {
    add("ended by trace.max_size (" + policy::format_bytes(settings_of(reader.header()).trace_max_size) +
        "): what came later is counted, not written");
  }
  if (report.cut_at) add("cut at byte " + std::to_string(*report.cut_at));
  if (report.damaged_frames > 0) {
    add(std::to_string(report.damaged_frames) + " damaged piece" + (report.damaged_frames == 1 ? "" : "s") +
        " left out, the first at byte " + std::to_string(report.first_damage.value_or(0)));
  }
  if (report.header_damaged) add("its header cannot be read: program, devices and settings are unknown");
  if (reader.malformed_records() > 0) {
    add(std::to_string(reader.malformed_records()) + " malformed record" +
        (reader.malformed_records() == 1 ? "" : "s") + " left out");
  }
  if (!reader.end()) {
    add(report.cut_at
            ? "the end of the run is missing: " + why_no_end(reader)
            : "no end after byte " + std::to_string(report.bytes) + ": still running, or " + why_no_end(reader));
  }
  return text;
}

}  // namespace spillway::tools
