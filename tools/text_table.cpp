#include "tools/text_table.hpp"

#include <algorithm>
#include <cstddef>

namespace spillway::tools {
namespace {

// Width on the terminal, near enough: one column per UTF-8 character.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string TextTable::str() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string out;
  const auto put = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - width(cells[i]), ' ');
      line += "  " + (columns_[i].align == Align::right ? pad + cells[i] : cells[i] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  put(titles);
  for (const auto& row : rows_) put(row);
  return out;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(std::uint64_t number, const char* one, const char* many) {
  return grouped(number) + " " + (number == 1 ? one : many);
}

std::string harmless(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x20 && byte != 0x7F) {
      out += letter;
    } else {
      out += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 0xFU]};
    }
  }
  return out;
}

}  // namespace spillway::tools
