// Columns for people: text to the left, numbers to the right, two blanks between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "policy/size_text.hpp"

namespace spillway::tools {

enum class Align : std::uint8_t { left, right };

class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::right;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Each line ends with a line feed and has no trailing blanks. In `width` columns (0: as wide as it is): texts are
  // shortened in the middle first; what is too wide all the same goes on below, with the first column again.
  [[nodiscard]] std::string str(std::size_t width = 0) const;

 private:
  using Widths = std::vector<std::size_t>;
  [[nodiscard]] Widths widths(std::size_t within) const;
  void put_block(std::string& out, const Widths& widths, std::size_t first, std::size_t end) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

using policy::counted;
using policy::grouped;

// Control characters as \xNN, so that a name out of a trace cannot steer the terminal.
std::string harmless(const std::string& text);

}  // namespace spillway::tools
