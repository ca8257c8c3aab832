// UTF-8, for formats that take nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spillway::tools {

// How many bytes the character at the beginning of the text has; 0 if that is none (overlong forms and surrogates
// included). The text is not empty.
std::size_t utf8_length(std::string_view text);

// With U+FFFD in place of each byte that belongs to no character.
std::string valid_utf8(std::string_view text);

}  // namespace spillway::tools
