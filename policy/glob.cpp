#include "policy/glob.hpp"

#include <cstddef>

namespace spillway::policy {
namespace {

std::size_t code(char c) { return static_cast<unsigned char>(c); }

// Reads "[a-z]" with `at` on the bracket; leaves `at` on the closing one.
std::optional<std::string> read_set(std::string_view pattern, std::size_t& at, std::bitset<256>& set) {
  std::size_t i = at + 1;
  const bool inverted = i < pattern.size() && pattern[i] == '!';
  if (inverted) ++i;
  const std::size_t first = i;
  while (i < pattern.size() && (pattern[i] != ']' || i == first)) {
    // A bracket right after the opening one is a member, so that []] can be written; so is a dash at either end.
    const bool range = i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']';
    const std::size_t low = code(pattern[i]);
    const std::size_t high = range ? code(pattern[i + 2]) : low;
    if (high < low) return "has the backward range " + std::string(pattern.substr(i, 3));
    for (std::size_t c = low; c <= high; ++c) set.set(c);
    i += range ? 3 : 1;
  }
  if (i >= pattern.size()) return "has a [ without its ]";
  if (inverted) set.flip();
  at = i;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> Glob::compile(std::string_view pattern, std::vector<Piece>& pieces) {
  if (pattern.empty()) return "is empty, and matches nothing";
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    Piece piece;
    switch (pattern[at]) {
      case '*':
        if (!pieces.empty() && pieces.back().any_text) continue;
        piece.any_text = true;
        break;
      case '?':
        piece.set.set();
        break;
      case '[':
        if (auto problem = read_set(pattern, at, piece.set)) return problem;
        break;
      case '\\':
        if (at + 1 == pattern.size()) return "ends in a backslash";
        ++at;
        [[fallthrough]];
      default:
        piece.set.set(code(pattern[at]));
    }
    pieces.push_back(piece);
  }
  return std::nullopt;
}

std::optional<std::string> glob_problem(std::string_view pattern) {
  std::vector<Glob::Piece> pieces;
  return Glob::compile(pattern, pieces);
}

Glob::Glob(std::string_view pattern) { valid_ = !compile(pattern, pieces_); }

bool Glob::matches(std::string_view text) const {
  if (!valid_) return false;
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t piece = 0;
  std::size_t at = 0;
  std::size_t star = kNone;  // the last `*` passed: only the last ever needs to grow
  std::size_t star_end = 0;  // where the text it took ends
  while (at < text.size()) {
    if (piece < pieces_.size() && pieces_[piece].any_text) {
      star = piece++;
      star_end = at;
    } else if (piece < pieces_.size() && pieces_[piece].set.test(code(text[at]))) {
      ++piece;
      ++at;
    } else if (star != kNone) {
      piece = star + 1;
      at = ++star_end;
    } else {
      return false;
    }
  }
  while (piece < pieces_.size() && pieces_[piece].any_text) ++piece;
  return piece == pieces_.size();
}

}  // namespace spillway::policy
