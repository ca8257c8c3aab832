// What the terminal can show: its width, and whether colours are wanted (https://no-color.org).
#pragma once

#include <cstddef>
#include <string>

namespace spillway::tools {

struct Terminal {
  std::size_t width = 0;  // in columns; 0: no terminal, or nobody knows
  bool colour = false;
};

// Of standard output. A file and a pipe have neither width nor colours.
Terminal terminal_of_output();

// Cut to the width, with the first line of each paragraph, its heading, in bold.
std::string page_for(const Terminal& terminal, const std::string& text);
// Long lines are wrapped between words instead, the rest indented by `indent` blanks.
std::string prose_for(const Terminal& terminal, const std::string& text, std::size_t indent);

}  // namespace spillway::tools
