// Writes JSON text: the trace's header and end inside the program, where a JSON library would be a heavy guest.
//
// The caller keeps begin and end, key and value in order; the writer puts the commas and escapes the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::policy::trace {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);  // bytes that are not UTF-8 become U+FFFD
  JsonWriter& number(std::uint64_t value);
  JsonWriter& boolean(bool value);
  JsonWriter& raw(std::string_view json);  // JSON made elsewhere, put in as it is

  JsonWriter& field(std::string_view name, std::string_view value) { return key(name).text(value); }
  JsonWriter& field(std::string_view name, std::uint64_t value) { return key(name).number(value); }

  [[nodiscard]] const std::string& str() const { return out_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quote(std::string_view value);

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace spillway::policy::trace
