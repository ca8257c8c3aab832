// The page's data blocks: tables of columns and lists of texts, deflated and in base64, each in an element of its own
// so that the page unpacks only what it shows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/view/column.hpp"

namespace spillway::tools::view {

using Json = nlohmann::ordered_json;

// zlib's raw deflate. `level` 1 to 9.
std::string deflated(std::string_view bytes, int level);
std::string base64(std::string_view bytes);

struct NamedColumn {
  const char* name;
  const Column* column;
};

class Blocks {
 public:
  // All columns have the same number of rows. Returns what the directory says of the block: id, rows, columns.
  Json add(std::initializer_list<NamedColumn> columns);
  // Texts without line breaks, one a line; breaks inside become blanks.
  Json add_texts(std::span<const std::string> texts);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // The elements, to be put into the page.
  [[nodiscard]] const std::vector<std::string>& encoded() const { return encoded_; }
  [[nodiscard]] std::vector<std::string> take() { return std::move(encoded_); }

 private:
  std::size_t put(std::string_view raw);

  std::vector<std::string> encoded_;
  std::uint64_t bytes_ = 0;
};

}  // namespace spillway::tools::view
