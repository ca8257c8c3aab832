#include "tools/run_name.hpp"

#include <algorithm>

namespace spillway::tools {
namespace {

constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz./:+-_";

}  // namespace

std::string run_name(const std::string& host, std::uint64_t pid, const std::string& start) {
  if (start.empty()) return {};
  std::string name = host + "/" + std::to_string(pid) + "/" + start;
  for (char& letter : name) {
    if (kLetters.find(letter) == std::string_view::npos) letter = '_';
  }
  return name;
}

std::string leading_run_name(std::string_view text) {
  return std::string(text.substr(0, text.find_first_not_of(kLetters)));
}

std::optional<std::string> replaces_other_run(const std::string& output, const std::vector<std::string>& there,
                                              const std::vector<std::string>& runs) {
  for (const std::string& run : there) {
    if (run.empty() || std::find(runs.begin(), runs.end(), run) != runs.end()) continue;
    return output + ": exists, and is of another run (" + run + "); name another file with -o, or add --replace";
  }
  return std::nullopt;
}

}  // namespace spillway::tools
