#include "tools/text_table.hpp"

#include <algorithm>
#include <cstddef>

namespace spillway::tools {
namespace {

// Narrower than this a text tells nothing.
constexpr std::size_t kLeastText = 12;
constexpr std::size_t kBetween = 2;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Width on the terminal, near enough: one column per UTF-8 character.
std::size_t columns_of(const std::string& text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

// Both ends tell names and paths apart: "gemm_fused_epil..f16_nn_128".
std::string shortened(const std::string& text, std::size_t width) {
  const std::size_t whole = columns_of(text);
  if (whole <= width) return text;
  const std::size_t head = (width - 2) / 2;
  const std::size_t tail = width - 2 - head;
  std::string begin, end;
  std::size_t at = 0;
  for (const char letter : text) {
    at += is_continuation(letter) ? 0U : 1U;
    if (at <= head) begin += letter;
    if (at > whole - tail) end += letter;
  }
  return begin + ".." + end;
}

}  // namespace

// As wide as the cells; texts narrower, the widest first, until all fits into `within`. Where nothing can make it fit,
// a text has two fifths of that: the rest goes on below.
TextTable::Widths TextTable::widths(std::size_t within) const {
  Widths widths, least;
  std::size_t all = 0;
  std::size_t narrowest = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t title = columns_of(columns_[i].title);
    std::size_t widest = title;
    for (const auto& row : rows_) widest = std::max(widest, columns_of(row[i]));
    widths.push_back(widest);
    least.push_back(columns_[i].align == Align::left ? std::min(widest, std::max(kLeastText, title)) : widest);
    all += kBetween + widest;
    narrowest += kBetween + least[i];
  }
  if (within == 0 || all <= within) return widths;
  if (narrowest > within) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::min(widths[i], std::max(least[i], within * 2 / 5));
    return widths;
  }
  for (; all > within; --all) {
    std::size_t most = 0;
    for (std::size_t i = 1; i < widths.size(); ++i) {
      if (widths[i] > least[i] && (widths[most] <= least[most] || widths[i] > widths[most])) most = i;
    }
    --widths[most];
  }
  return widths;
}

// The first column, and those from `first` to `end`.
void TextTable::put_block(std::string& out, const Widths& widths, std::size_t first, std::size_t end) const {
  const auto put = [&](const auto& cell) {
    std::string line;
    for (std::size_t i = 0; i < end; ++i) {
      if (i > 0 && i < first) continue;
      const std::string text = shortened(cell(i), widths[i]);
      const std::string pad(widths[i] - columns_of(text), ' ');
      line += "  " + (columns_[i].align == Align::right ? pad + text : text + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  put([this](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) put([&row](std::size_t i) { return row[i]; });
}

std::string TextTable::str(std::size_t width) const {
  std::string out;
  const Widths widths = this->widths(width);
  for (std::size_t first = 0; first < columns_.size();) {
    std::size_t used = first == 0 ? 0 : kBetween + widths[0];
    std::size_t end = first;
    while (end < columns_.size() && (width == 0 || end == first || used + kBetween + widths[end] <= width)) {
      used += kBetween + widths[end++];
    }
    // A first column alone says nothing.
    if (first == 0 && end == 1 && columns_.size() > 1) ++end;
    if (!out.empty()) out += '\n';
    put_block(out, widths, first, end);
    first = end;
  }
  return out;
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
