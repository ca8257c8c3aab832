// Reads protocol buffers' wire format without a schema: for tests that check a written file against one.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace spillway::tests {

struct ProtoField {
  std::uint32_t field = 0;
  std::uint32_t type = 0;   // 0 varint, 1 fixed 64, 2 bytes, 5 fixed 32
  std::uint64_t value = 0;  // of a number
  std::string_view bytes;   // of a text or message
};

// Nothing if the bytes are no message.
inline std::optional<std::vector<ProtoField>> read_message(std::string_view bytes) {
  const auto varint = [&bytes](std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 70 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) return true;
    }
    return false;
  };
  std::vector<ProtoField> fields;
  while (!bytes.empty()) {
    std::uint64_t key = 0;
    if (!varint(key)) return std::nullopt;
    ProtoField field{static_cast<std::uint32_t>(key >> 3U), static_cast<std::uint32_t>(key & 7U), 0, {}};
    if (field.type == 0) {
      if (!varint(field.value)) return std::nullopt;
    } else if (field.type == 1) {
      if (bytes.size() < 8) return std::nullopt;
      std::memcpy(&field.value, bytes.data(), 8);
      bytes.remove_prefix(8);
    } else if (field.type == 2) {
      std::uint64_t size = 0;
      if (!varint(size) || size > bytes.size()) return std::nullopt;
      field.bytes = bytes.substr(0, size);
      bytes.remove_prefix(size);
    } else {
      return std::nullopt;
    }
    fields.push_back(field);
  }
  return fields;
}

}  // namespace spillway::tests
