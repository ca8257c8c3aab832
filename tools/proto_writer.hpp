// The wire format of protocol buffers, as far as Perfetto's traces need it: varints, fixed 64-bit numbers, texts and
// messages within messages. Fields are written in the order of the calls.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tools/utf8.hpp"

namespace spillway::tools {

class ProtoMessage {
 public:
  ProtoMessage& number(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  // int32 and int64 fields: two's complement, sign-extended to 64 bits.
  ProtoMessage& signed_number(std::uint32_t field, std::int64_t value) {
    return number(field, static_cast<std::uint64_t>(value));
  }
  ProtoMessage& fixed64(std::uint32_t field, std::uint64_t value) {
    key(field, 1);
    char bytes[8];
    std::memcpy(bytes, &value, sizeof bytes);
    out_.append(bytes, sizeof bytes);
    return *this;
  }
  // Names in a trace are bytes, a text here is UTF-8: what is none is replaced.
  ProtoMessage& text(std::uint32_t field, std::string_view value) { return raw(field, valid_utf8(value)); }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) { return raw(field, value.out_); }

  [[nodiscard]] const std::string& bytes() const { return out_; }
  void clear() { out_.clear(); }

 private:
  ProtoMessage& raw(std::uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    out_ += value;
    return *this;
  }
  void key(std::uint32_t field, std::uint32_t type) { varint((field << 3U) | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) out_ += static_cast<char>(0x80U | (value & 0x7FU));
    out_ += static_cast<char>(value);
  }

  std::string out_;
};

}  // namespace spillway::tools
