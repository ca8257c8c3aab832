#include "shim/trace_path.hpp"

namespace spillway::shim {
namespace {

std::string harmless(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    text += byte < 0x20 || byte == 0x7F || letter == '/' ? '_' : letter;
  }
  return text;
}

}  // namespace

std::string expand_trace_path(std::string_view pattern, const TraceNames& names) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'p':
        path += harmless(names.pid);
        break;
      case 't':
        path += harmless(names.start);
        break;
      case 'h':
        path += harmless(names.host);
        break;
      case 'r':
        path += names.rank.empty() ? "0" : harmless(names.rank);
        break;
      case '%':
        path += '%';
        break;
      default:
        path += '%';
        path += pattern[i];
    }
  }
  return path;
}

}  // namespace spillway::shim
