#include "shim/log.hpp"

#include <pthread.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <memory>

#include "shim/uncancelled.hpp"

namespace spillway::shim {

namespace {

constinit std::atomic<LogLevel> current_level{LogLevel::info};
thread_local constinit bool writing = false;
constinit std::atomic<LogPlace*> places_left_out{nullptr};

// Which file standard error was when the library was loaded. A program may close it, and what it opens next gets the
// number: no line of ours belongs in there.
constinit dev_t error_device = 0;
constinit ino_t error_inode = 0;
constinit bool error_open = false;

bool still_standard_error() {
  struct stat status {};
  return error_open && ::fstat(STDERR_FILENO, &status) == 0 && status.st_dev == error_device &&
         status.st_ino == error_inode;
}

// A reader who has gone is no reason to end the program: the signal of our own write is taken back, one that was
// waiting before is left.
void write_without_signal(const char* text, std::size_t bytes) {
  sigset_t pipe;
  sigset_t before;
  sigset_t waiting;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigemptyset(&waiting);
  if (pthread_sigmask(SIG_BLOCK, &pipe, &before) != 0) return;
  sigpending(&waiting);
  const ssize_t written = ::write(STDERR_FILENO, text, bytes);
  if (written < 0 && errno == EPIPE && sigismember(&waiting, SIGPIPE) == 0) {
    const timespec at_once{};
    while (sigtimedwait(&pipe, nullptr, &at_once) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// One write(2) a line, so that lines of several threads and processes do not mix; nothing is retried or buffered.
class StderrSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (still_standard_error()) write_without_signal(line.data(), line.size());
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

// When the library is loaded, which is before the program closes anything.
__attribute__((constructor)) void remember_standard_error() {
  struct stat status {};
  error_open = ::fstat(STDERR_FILENO, &status) == 0;
  error_device = status.st_dev;
  error_inode = status.st_ino;
}

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

// FNV-1a.
std::uint64_t subject_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100'0000'01b3ULL;
  return hash;
}

bool may_speak(LogPlace& place, std::uint64_t subject) noexcept {
  if (subject == 0) subject = ~std::uint64_t{0};
  for (std::atomic<std::uint64_t>& slot : place.subjects) {
    std::uint64_t there = 0;
    if (slot.compare_exchange_strong(there, subject, std::memory_order_relaxed)) return true;
    if (there == subject) break;
  }
  place.left_out.fetch_add(1, std::memory_order_relaxed);
  if (!place.listed.exchange(true)) {
    LogPlace* head = places_left_out.load(std::memory_order_relaxed);
    do {
      place.next.store(head, std::memory_order_relaxed);
    } while (!places_left_out.compare_exchange_weak(head, &place, std::memory_order_release));
  }
  return false;
}

void write_log(LogLevel level, LogPlace& place, std::string_view text) noexcept {
  if (writing) return;
  const Uncancelled held;
  writing = true;
  const int saved_errno = errno;
  try {
    write_line(level, text);
  } catch (...) {
    // No memory for a message: the program matters more.
  }
  // One thread names a place; where two speak at once the other's text is lost to the count only.
  static constinit std::atomic_flag naming = ATOMIC_FLAG_INIT;
  if (!naming.test_and_set(std::memory_order_acquire)) {
    if (!place.named.load(std::memory_order_relaxed)) {
      place.level = level;
      const std::size_t length = std::min(text.size(), place.first.size() - 1);
      std::copy_n(text.data(), length, place.first.data());
      place.named.store(true, std::memory_order_release);
    }
    naming.clear(std::memory_order_release);
  }
  errno = saved_errno;
  writing = false;
}

void log_left_out() noexcept {
  for (LogPlace* place = places_left_out.load(std::memory_order_acquire); place != nullptr;
       place = place->next.load(std::memory_order_relaxed)) {
    const std::uint64_t times = place->left_out.exchange(0, std::memory_order_relaxed);
    if (times == 0 || !place->named.load(std::memory_order_acquire) || log_level() > place->level) continue;
    try {
      LogPlace count;
      const std::string_view first = place->first.data();
      const bool cut = first.size() == place->first.size() - 1;
      write_log(place->level, count, fmt::format("{} more like \"{}{}\"", times, first, cut ? "..." : ""));
    } catch (...) {
      return;
    }
  }
}

}  // namespace spillway::shim
