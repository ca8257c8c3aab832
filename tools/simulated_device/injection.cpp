#include "tools/simulated_device/injection.hpp"

#include <charconv>

#include "tools/simulated_device/entry_points.hpp"

namespace spillway::simulated {
namespace {

template <class Number>
bool parse(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<Injection> parse_injection(const std::string& text) {
  const auto first = text.find(':');
  const auto second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string_view all(text);
  const auto symbol = all.substr(0, first);
  const auto call = all.substr(first + 1, second - first - 1);
  auto action = all.substr(second + 1);

  Injection injection;
  injection.entry = static_cast<unsigned>(kEntryPoints);
  for (unsigned i = 0; i < kEntryPoints; ++i) {
    if (symbol == symbol_of(static_cast<EntryPoint>(i))) injection.entry = i;
  }
  if (injection.entry == kEntryPoints) return std::nullopt;
  if (call != "*" && (!parse(call, injection.call) || injection.call == 0)) return std::nullopt;
  if (!action.starts_with("delay=")) {
    return parse(action, injection.code) && injection.code > 0 ? std::optional(injection) : std::nullopt;
  }
  action.remove_prefix(6);
  std::int64_t milliseconds = 0;
  if (!action.ends_with("ms") || !parse(action.substr(0, action.size() - 2), milliseconds) || milliseconds < 0) {
    return std::nullopt;
  }
  injection.delay = std::chrono::milliseconds(milliseconds);
  return injection;
}

}  // namespace spillway::simulated
