// Messages for a person, on standard error by write(2), never on standard output and never through the program's own
// stdio. Standard error is the file that it was when the library was loaded: where the program has closed it since, or
// put another file in its place, nothing is written. A reader who has gone costs no signal. Works before main and after
// exit; a message made while one is being written is left out.
//
// Each kind of message is said once: a place of the source speaks once a subject (a device, say; SPILLWAY_LOG_FOR),
// once at all (SPILLWAY_LOG_ONCE), or once a text (SPILLWAY_LOG), and of kSubjectLimit subjects at most. What comes
// again is counted, and `log_left_out` says at the end how often.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::shim {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

void set_log_level(LogLevel level);
[[nodiscard]] LogLevel log_level();
// "debug", "info", "warning", "error", "off"; nothing changes for another word, and false is returned.
bool set_log_level(std::string_view name);

inline constexpr std::size_t kSubjectLimit = 16;

// One place of the source that logs.
struct LogPlace {
  std::array<std::atomic<std::uint64_t>, kSubjectLimit> subjects{};  // 0: free
  std::atomic<std::uint64_t> left_out{0};
  std::atomic<LogPlace*> next{nullptr};  // of those that left something out
  std::atomic<bool> listed{false};
  std::atomic<bool> named{false};  // `first` is whole
  LogLevel level = LogLevel::info;
  std::array<char, 160> first{};  // the message, cut
};

// What standard error is now is what lines go to from here on. Done when the library is loaded; again by tests.
void remember_standard_error();

// True, once, for each of the first subjects of a place; else the message is counted as left out.
bool may_speak(LogPlace& place, std::uint64_t subject) noexcept;
void write_log(LogLevel level, LogPlace& place, std::string_view text) noexcept;
// A line for each place that left something out. For the end of the process.
void log_left_out() noexcept;
[[nodiscard]] std::uint64_t subject_of(std::string_view text) noexcept;

}  // namespace spillway::shim

// Formats only what is written. Never throws. `subject` is a number or a text.
#define SPILLWAY_LOG_FOR(level, subject, ...)                                              \
  do {                                                                                     \
    static constinit ::spillway::shim::LogPlace spillway_log_place;                        \
    if (::spillway::shim::log_level() <= ::spillway::shim::LogLevel::level &&              \
        ::spillway::shim::may_speak(spillway_log_place, (subject))) {                      \
      try {                                                                                \
        ::spillway::shim::write_log(::spillway::shim::LogLevel::level, spillway_log_place, \
                                    ::fmt::format(__VA_ARGS__));                           \
      } catch (...) { /* a message is not worth an exception in somebody else's program */ \
      }                                                                                    \
    }                                                                                      \
  } while (false)

#define SPILLWAY_LOG_ONCE(level, ...) SPILLWAY_LOG_FOR(level, std::uint64_t{1}, __VA_ARGS__)

// SPILLWAY_LOG(info, "budget {}", text)
#define SPILLWAY_LOG(level, ...) SPILLWAY_LOG_FROM(level, level, __VA_ARGS__)

// What became of something that was asked for, and is nowhere else to be read: said at every level but off.
#define SPILLWAY_LOG_ASKED_FOR(level, ...) SPILLWAY_LOG_FROM(error, level, __VA_ARGS__)

// `level` is what the line calls itself, `least` what decides whether it is written.
#define SPILLWAY_LOG_FROM(least, level, ...)                                                                     \
  do {                                                                                                           \
    static constinit ::spillway::shim::LogPlace spillway_log_place;                                              \
    if (::spillway::shim::log_level() <= ::spillway::shim::LogLevel::least) {                                    \
      try {                                                                                                      \
        const std::string spillway_log_text = ::fmt::format(__VA_ARGS__);                                        \
        if (::spillway::shim::may_speak(spillway_log_place, ::spillway::shim::subject_of(spillway_log_text)))    \
          ::spillway::shim::write_log(::spillway::shim::LogLevel::level, spillway_log_place, spillway_log_text); \
      } catch (...) { /* a message is not worth an exception in somebody else's program */                       \
      }                                                                                                          \
    }                                                                                                            \
  } while (false)
