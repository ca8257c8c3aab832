#include "shim/trace_log.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <utility>

#include "shim/environment.hpp"
#include "shim/log.hpp"

namespace spillway::shim {
namespace {

// A disk that hangs holds the program up no longer. The driver's own start takes as long.
constexpr std::chrono::milliseconds kWaitForTheFile{250};

std::string start_for_names() {
  const std::time_t moment = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&moment, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%S", &parts);
  return text.data();
}

}  // namespace

void TraceLog::open(const policy::Settings& settings, const policy::trace::TraceHeader& header) {
  if (settings.trace_path.empty()) return;
  TraceWriterOptions options;
  options.path_pattern = settings.trace_path;
  options.names = {std::to_string(header.pid), start_for_names(), header.host, header.rank};
  options.most_bytes = settings.trace_max_size.count();
  options.header_json = policy::trace::encode_header(header);
  options.report = [](const std::string& what) { SPILLWAY_LOG_ASKED_FOR(warning, "{}", what); };
  options.renamed = [](const std::string& path) {
    SPILLWAY_LOG_ASKED_FOR(info, "the trace is {}: a file of the name asked for exists", path);
  };
  builder_ = std::make_unique<policy::trace::FrameBuilder>();
  writer_ = std::make_unique<TraceWriter>(std::move(options));
}

void TraceLog::submit(std::optional<policy::trace::FrameBytes> frame) {
  if (frame && !writer_->submit(std::move(*frame))) builder_->note_dropped();
}

void TraceLog::add(const policy::Event& event) {
  if (writer_) submit(builder_->add(event));
}

void TraceLog::add(policy::Nanoseconds time, const policy::Decision& decision) {
  if (writer_) submit(builder_->add(time, decision));
}

void TraceLog::flush() {
  if (writer_) submit(builder_->finish());
}

void TraceLog::begin() {
  flush();
  if (writer_) writer_->flush_now(kWaitForTheFile);
}

void TraceLog::close(policy::trace::TraceEnd end) {
  if (!writer_) return;
  end.dropped_frames = writer_->dropped_frames();
  writer_->close(policy::trace::encode_end(end));
}

void TraceLog::after_fork_in_child() {
  if (writer_) writer_->after_fork_in_child();
}

}  // namespace spillway::shim
