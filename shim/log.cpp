#include "shim/log.hpp"

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace spillway::shim {

namespace {

constinit std::atomic<LogLevel> current_level{LogLevel::info};
thread_local constinit bool writing = false;

// One write(2) a line, so that lines of several threads and processes do not mix; nothing is retried or buffered.
class StderrSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  void flush_() override {}
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

// A logger for the message at hand: no static state, so that it works before main, after exit and in a forked child.
void write_line(LogLevel level, std::string_view text) {
  auto sink = std::make_shared<StderrSink>();
  sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("spillway[%P] %l: %v"));
  spdlog::logger logger("spillway", std::move(sink));
  logger.set_level(spdlog::level::trace);
  logger.set_error_handler([](const std::string&) {});
  logger.log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace

void set_log_level(LogLevel level) { current_level.store(level, std::memory_order_relaxed); }
LogLevel log_level() { return current_level.load(std::memory_order_relaxed); }

bool set_log_level(std::string_view name) {
  for (const auto& [word, level] : {std::pair<std::string_view, LogLevel>{"debug", LogLevel::debug},
                                    {"info", LogLevel::info},
                                    {"warning", LogLevel::warning},
                                    {"error", LogLevel::error},
                                    {"off", LogLevel::off}}) {
    if (name != word) continue;
    set_log_level(level);
    return true;
  }
  return false;
}

void write_log(LogLevel level, LogPlace& place, std::string_view text) noexcept {
  if (writing) return;
  const std::uint32_t before = place.count.fetch_add(1, std::memory_order_relaxed);
  if (before >= kRepeatLimit) return;
  writing = true;
  const int saved_errno = errno;
  try {
    write_line(level, text);
    if (before + 1 == kRepeatLimit) write_line(level, "(said often enough: this message is not repeated)");
  } catch (...) {
    // No memory for a message: the program matters more.
  }
  errno = saved_errno;
  writing = false;
}

}  // namespace spillway::shim
