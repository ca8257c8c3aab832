// What the terminal can show: its width, and whether colours are wanted (https://no-color.org).
#pragma once

#include <cstddef>
#include <string>

namespace spillway::tools {

struct Terminal {
  std::size_t width = 0;  // in columns; 0: nobody knows: nothing is shortened or wrapped
  bool colour = false;
};

// Of standard output; COLUMNS, where it is set, is the width of whatever that is. Without it a file and a pipe have
// none, and they never have colours.
Terminal terminal_of_output();

// Lines that are too long are wrapped, nothing is cut; the first line of each paragraph, its heading, in bold. Tables
// are made for the width beforehand (TextTable::str).
std::string page_for(const Terminal& terminal, const std::string& text);
// Wrapped between words, the rest of a line indented by `indent` blanks.
std::string prose_for(const Terminal& terminal, const std::string& text, std::size_t indent);

}  // namespace spillway::tools
