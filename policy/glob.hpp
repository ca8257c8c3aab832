// Patterns for kernel and library names: `*` any text, `?` one character, `[a-z]` and `[!a-z]` one of a set, `\` takes
// the next character as it is. The whole text must match. Case counts, as it does in symbols.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::policy {

// What is wrong with a pattern: "has a [ without its ]".
std::optional<std::string> glob_problem(std::string_view pattern);

class Glob {
 public:
  // A pattern with a problem matches nothing.
  explicit Glob(std::string_view pattern);
  // At most (length of the pattern x length of the text) steps, whatever the pattern.
  [[nodiscard]] bool matches(std::string_view text) const;

 private:
  struct Piece {
    bool any_text = false;  // `*`; otherwise one character of `set`
    std::bitset<256> set;
  };
  friend std::optional<std::string> glob_problem(std::string_view pattern);
  static std::optional<std::string> compile(std::string_view pattern, std::vector<Piece>& pieces);

  std::vector<Piece> pieces_;
  bool valid_ = true;
};

}  // namespace spillway::policy
