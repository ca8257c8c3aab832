#include "tools/view/column.hpp"

namespace spillway::tools::view {

void Column::add(std::int64_t value) {
  const std::int64_t kept = std::clamp(value, -kMost, kMost);
  const std::int64_t difference = kept - last_;
  last_ = kept;
  auto rest = static_cast<std::uint64_t>(difference) << 1U;
  if (difference < 0) rest = ~rest;
  while (rest >= 0x80) {
    bytes_.push_back(static_cast<char>((rest & 0x7FU) | 0x80U));
    rest >>= 7U;
  }
  bytes_.push_back(static_cast<char>(rest));
  ++rows_;
}

}  // namespace spillway::tools::view
