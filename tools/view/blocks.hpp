// The page's data blocks: tables of columns and lists of texts, deflated and in base64, each in an element of its own
// so that the page unpacks only what it shows.
#pragma once

#include <cstdint>
#include <deque>
#include <future>
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

  // What a block takes in the page. Waits for it.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t id);
  // The elements, to be put into the page.
  [[nodiscard]] const std::vector<std::string>& encoded();
  [[nodiscard]] std::vector<std::string> take();

 private:
  struct Pending {
    std::size_t id;
    std::future<std::string> encoded;
  };
  std::size_t put(std::string raw);
  void settle_oldest();

  std::vector<std::string> encoded_;  // by id; empty while pending
  std::deque<Pending> pending_;       // being deflated by other threads, while the trace is read on
};

}  // namespace spillway::tools::view
