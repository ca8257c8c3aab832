#include "tools/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace spillway::tools {
namespace {

constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kPlain = "\033[0m";
constexpr std::size_t kNarrowest = 20;  // below that nothing can be shown, so nothing is fitted

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Bytes of `text` that fit into `columns`, one column a character.
std::size_t fitting(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t used = 0; at < text.size(); ++at) {
    if (!continues(text[at]) && used++ == columns) break;
  }
  return at;
}

template <class Each>
void each_line(std::string_view text, const Each& each) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

Terminal terminal_of_output() {
  Terminal terminal;
  const bool there = ::isatty(STDOUT_FILENO) == 1;
  winsize size{};
  if (there && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) terminal.width = size.ws_col;
  if (const char* const columns = std::getenv("COLUMNS"); columns != nullptr) {
    const long asked = std::strtol(columns, nullptr, 10);
    constexpr long kWidest = 10'000;
    if (asked > 0 && asked <= kWidest) terminal.width = static_cast<std::size_t>(asked);
  }
  if (terminal.width < kNarrowest) terminal.width = 0;
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const kind = std::getenv("TERM");
  terminal.colour =
      there && (no_colour == nullptr || *no_colour == '\0') && kind != nullptr && std::string_view(kind) != "dumb";
  return terminal;
}

std::string page_for(const Terminal& terminal, const std::string& text) {
  constexpr std::size_t kIndent = 4;
  std::string out;
  bool heading = false;
  each_line(text, [&](std::string_view line) {
    const std::string shown = prose_for(terminal, std::string(line) + '\n', kIndent);
    out += heading && terminal.colour
               ? std::string(kBold) + shown.substr(0, shown.size() - 1) + std::string(kPlain) + '\n'
               : shown;
    heading = line.empty();
  });
  return out;
}

std::string prose_for(const Terminal& terminal, const std::string& text, std::size_t indent) {
  if (terminal.width < kNarrowest) return text;
  indent = std::min(indent, terminal.width * 2 / 5);
  std::string out;
  each_line(text, [&](std::string_view line) {
    std::size_t room = terminal.width;
    while (fitting(line, room) < line.size()) {
      const std::size_t fits = fitting(line, room);
      const std::size_t blank = line.rfind(' ', fits);
      const std::size_t end = blank == std::string_view::npos || blank <= indent ? fits : blank;
      out += std::string(line.substr(0, end)) + '\n' + std::string(indent, ' ');
      line.remove_prefix(end + (end == blank ? 1 : 0));
      room = terminal.width - indent;
    }
    out += std::string(line) + '\n';
  });
  return out;
}

}  // namespace spillway::tools
