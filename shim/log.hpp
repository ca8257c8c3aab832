// Messages for a person, on standard error by write(2), never on standard output and never through the program's own
// stdio. Standard error is the file that it was when the library was loaded: where the program has closed it since, or
// put another file in its place, nothing is written. A reader who has gone costs no signal. Works before main and after
// exit; a message made while one is being written is left out; after kRepeatLimit messages from one place of the source
// that place falls silent, having said so.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace spillway::shim {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

void set_log_level(LogLevel level);
[[nodiscard]] LogLevel log_level();
// "debug", "info", "warning", "error", "off"; nothing changes for another word, and false is returned.
bool set_log_level(std::string_view name);

// One place of the source that logs.
struct LogPlace {
  std::atomic<std::uint32_t> count{0};
};
inline constexpr std::uint32_t kRepeatLimit = 5;

// What standard error is now is what lines go to from here on. Done when the library is loaded; again by tests.
void remember_standard_error();

void write_log(LogLevel level, LogPlace& place, std::string_view text) noexcept;

}  // namespace spillway::shim

// SPILLWAY_LOG(info, "budget {}", text): formats only when the level is on. Never throws.
#define SPILLWAY_LOG(level, ...)                                                           \
  do {                                                                                     \
    static constinit ::spillway::shim::LogPlace spillway_log_place;                        \
    if (::spillway::shim::log_level() <= ::spillway::shim::LogLevel::level) {              \
      try {                                                                                \
        ::spillway::shim::write_log(::spillway::shim::LogLevel::level, spillway_log_place, \
                                    ::fmt::format(__VA_ARGS__));                           \
      } catch (...) { /* a message is not worth an exception in somebody else's program */ \
      }                                                                                    \
    }                                                                                      \
  } while (false)
