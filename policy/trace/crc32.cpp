#include "policy/trace/crc32.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace spillway::policy::trace {
namespace {

static_assert(std::endian::native == std::endian::little, "traces are written and read by little-endian machines only");

// tables[k][b]: the CRC of byte b followed by k zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? (crc >> 1) ^ 0xEDB88320U : crc >> 1;
    tables[0][byte] = crc;
  }
  for (std::size_t zeros = 1; zeros < 8; ++zeros) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[zeros - 1][byte];
      tables[zeros][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, next, 4);
    std::memcpy(&high, next + 4, 4);
    low ^= crc;
    crc = kTables[7][low & 0xFFU] ^ kTables[6][(low >> 8) & 0xFFU] ^ kTables[5][(low >> 16) & 0xFFU] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xFFU] ^ kTables[2][(high >> 8) & 0xFFU] ^
          kTables[1][(high >> 16) & 0xFFU] ^ kTables[0][high >> 24];
  }
  for (; left > 0; --left, ++next) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*next)) & 0xFFU];
  return ~crc;
}

}  // namespace spillway::policy::trace
