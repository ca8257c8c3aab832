#include "policy/demangle.hpp"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace spillway::policy {
namespace {

// Mangled names of template libraries reach some thousand characters. What is longer comes from a damaged trace, and
// the demangler's time and stack grow with it.
constexpr std::size_t kLongestName = 8192;

constexpr std::string_view kAnonymous = "(anonymous namespace)";
constexpr std::string_view kCallOperator = "operator()";

}  // namespace

std::string demangled(std::string_view name) {
  if (!name.starts_with("_Z") || name.size() > kLongestName) return std::string(name);
  const std::string terminated(name);
  int status = 0;
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  const std::unique_ptr<char, Free> text(abi::__cxa_demangle(terminated.c_str(), nullptr, nullptr, &status));
  return status == 0 && text ? std::string(text.get()) : terminated;
}

std::string bare_function_name(std::string_view full) {
  // One walk at template depth 0: the return type ends at the last blank before the name, the name at its parameters.
  std::string name;
  std::size_t depth = 0;
  for (std::size_t at = 0; at < full.size(); ++at) {
    const std::string_view rest = full.substr(at);
    if (depth == 0 && rest.starts_with(kAnonymous)) {
      name += kAnonymous;
      at += kAnonymous.size() - 1;
    } else if (depth == 0 && rest.starts_with(kCallOperator)) {
      name += kCallOperator;
      at += kCallOperator.size() - 1;
    } else if (full[at] == '<') {
      ++depth;
    } else if (full[at] == '>') {
      if (depth > 0) --depth;
    } else if (depth > 0) {
      continue;
    } else if (full[at] == '(') {
      break;
    } else if (full[at] == ' ') {
      name.clear();
    } else {
      name += full[at];
    }
  }
  return name.empty() ? std::string(full) : name;
}

}  // namespace spillway::policy
