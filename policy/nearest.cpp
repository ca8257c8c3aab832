// The known word nearest to a mistyped one, and quoting of what was typed.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "policy/settings.hpp"

namespace spillway::policy {
namespace {

// Words of settings are short; a longer "word" is no typing mistake, and the distance costs the product of the lengths.
constexpr std::size_t kLongestWord = 64;
constexpr std::size_t kLongestQuote = 60;

// Optimal string alignment: insert, delete, replace, and swap of neighbours cost one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0U : 1U)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string alike_form(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return out;
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> known) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const std::string wanted = alike_form(word);
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : known) {
    const std::string other = alike_form(candidate);
    // A word cut short ("warn", "adapt") is one mistake, however many letters are missing.
    const bool cut_short = wanted.size() >= 3 && other.starts_with(wanted);
    const std::size_t distance =
        cut_short ? std::min<std::size_t>(1, other.size() - wanted.size()) : edit_distance(wanted, other);
    if (!best || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best) return std::nullopt;
  // A third of the letters may be wrong, or one of a short word: beyond that the guess would only mislead.
  const std::size_t limit = std::max<std::size_t>(1, std::max(word.size(), best->size()) / 3);
  if (best_distance > limit || best_distance >= std::min(word.size(), best->size())) return std::nullopt;
  return best;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kLongestQuote)) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7F) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\x";
      out += kHex[code >> 4U];
      out += kHex[code & 15U];
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongestQuote ? "...\"" : "\"");
}

}  // namespace spillway::policy
