// Reads what `spillway view` puts into a page, as the page's own code does (tools/viewer/src/blocks.ts).
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/view/trace_view.hpp"

namespace spillway::tools::view {

inline std::string unbase64(const std::string& text) {
  std::string out;
  std::uint32_t group = 0;
  int digits = 0;
  for (const char c : text) {
    const auto at = std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").find(c);
    if (at == std::string_view::npos) break;
    group = group << 6U | static_cast<std::uint32_t>(at);
    if (++digits % 4 != 0) continue;
    for (const unsigned shift : {16U, 8U, 0U}) out.push_back(static_cast<char>(group >> shift & 255U));
    group = 0;
  }
  const int left = digits % 4;
  if (left > 1) out.push_back(static_cast<char>(group >> (left == 2 ? 4U : 10U) & 255U));
  if (left > 2) out.push_back(static_cast<char>(group >> 2U & 255U));
  return out;
}

inline std::string inflated(const std::string& packed) {
  std::string out(1U << 22U, '\0');
  std::string in = packed;
  z_stream stream{};
  inflateInit2(&stream, -MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

// As the page reads it, in 64 bits in place of doubles.
inline std::vector<std::int64_t> decode(const std::string& bytes, std::size_t& at, std::size_t rows) {
  std::vector<std::int64_t> values;
  std::int64_t value = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    std::uint64_t bits = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      bits |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) break;
    }
    EXPECT_LE(bits, std::uint64_t{1} << 53U) << "a double cannot hold it";
    value += (bits & 1U) == 0 ? static_cast<std::int64_t>(bits >> 1U) : -static_cast<std::int64_t>(bits >> 1U) - 1;
    values.push_back(value);
  }
  return values;
}

using TableOf = std::map<std::string, std::vector<std::int64_t>>;
inline TableOf table_of(const ViewData& data, const Json& block) {
  const std::string raw = inflated(unbase64(data.blocks.at(block["id"])));
  TableOf table;
  std::size_t at = 0;
  for (const auto& name : block["columns"]) table[name] = decode(raw, at, block["rows"]);
  EXPECT_EQ(at, raw.size());
  return table;
}

}  // namespace spillway::tools::view
