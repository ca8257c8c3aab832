// Dates as a trace's header has them, and as a person reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway::tools {

// Seconds since 1970 of an RFC 3339 time; nothing if the text is none.
std::optional<std::int64_t> seconds_of(const std::string& date);

// "2026-01-02T03:04:05Z".
std::string date_of(std::int64_t seconds);

}  // namespace spillway::tools
