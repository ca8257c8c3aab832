#include "tools/simulated_device/memory_size.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace spillway::simulated {
namespace {

std::optional<std::uint64_t> whole_bytes(const std::string& text) {
  struct Unit {
    std::string_view name;
    unsigned shift;
  };
  static constexpr std::array<Unit, 5> kUnits{{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}, {"", 0}}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    const char* const end = text.data() + text.size() - unit.name.size();
    std::uint64_t number = 0;
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number > (~std::uint64_t{0} >> unit.shift)) return std::nullopt;
    return number << unit.shift;
  }
  return std::nullopt;
}

}  // namespace

MemorySize read_memory_size(const std::string& text) {
  constexpr std::uint64_t kChunk = std::uint64_t{2} << 20;
  const auto bytes = whole_bytes(text);
  if (bytes && *bytes >= 16 * kChunk && *bytes <= (std::uint64_t{64} << 30)) return {*bytes / kChunk * kChunk, {}};
  return {0, std::string(kMemoryVariable) + "=\"" + text + "\": give a size from 32MiB to 64GiB, for example 256MiB"};
}

}  // namespace spillway::simulated
