// A column of whole numbers as the page stores it: each value's difference to the one before, as zigzag LEB128. Columns
// that change slowly take about a byte a value, and deflate finds what repeats.
//
// The page counts in doubles: values beyond 2^51 (26 days of nanoseconds, 2 PiB; only damage has them) become 2^51, so
// that differences stay exact there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace spillway::tools::view {

class Column {
 public:
  void add(std::int64_t value);
  void add(std::uint64_t value) {
    add(static_cast<std::int64_t>(std::min<std::uint64_t>(value, static_cast<std::uint64_t>(kMost))));
  }
  void add(std::uint32_t value) { add(static_cast<std::int64_t>(value)); }

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 51U;

  std::string bytes_;
  std::size_t rows_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace spillway::tools::view
