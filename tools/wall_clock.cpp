#include "tools/wall_clock.hpp"

#include <array>
#include <cstdio>
#include <ctime>

namespace spillway::tools {

std::optional<std::int64_t> seconds_of(const std::string& date) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  if (std::sscanf(date.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &used) !=
      6) {
    return std::nullopt;
  }
  std::tm parts{};
  parts.tm_year = year - 1900;
  parts.tm_mon = month - 1;
  parts.tm_mday = day;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_sec = second;
  std::int64_t offset = 0;
  int hours = 0, minutes = 0;
  char sign = 'Z';
  if (std::sscanf(date.c_str() + used, "%c%2d:%2d", &sign, &hours, &minutes) == 3 && sign != 'Z') {
    offset = (hours * 60 + minutes) * 60 * (sign == '-' ? -1 : 1);
  }
  return std::int64_t{::timegm(&parts)} - offset;
}

std::string date_of(std::int64_t seconds) {
  const std::time_t moment = seconds;
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&moment, &parts) == nullptr) return {};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace spillway::tools
