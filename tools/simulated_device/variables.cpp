#include "tools/simulated_device/variables.hpp"

#include <charconv>

namespace spillway::simulated {

NumberReading read_number(const NumberVariable& variable, const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good =
      error == std::errc() && end == text.data() + text.size() && number >= variable.least && number <= variable.most;
  if (good) return {number, ""};
  return {0, std::string(variable.name) + "=\"" + text + "\": " + variable.remedy};
}

}  // namespace spillway::simulated
