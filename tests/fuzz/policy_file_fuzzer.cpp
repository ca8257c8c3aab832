// The policy file's reader on any text. Besides "no crash, no hang": mistakes stand inside the text and each is one
// line, a file without any is written and read back equal, and its rules can be compiled and asked.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "policy/policy_file.hpp"
#include "policy/policy_file_writer.hpp"
#include "policy/rule_matcher.hpp"

using namespace spillway::policy;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_mistakes(const PolicyFileReading& reading, std::string_view text) {
  const auto lines = static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  TextPosition last;
  for (const PolicyMistake& mistake : reading.mistakes) {
    const std::string sentence = mistake.sentence();
    check(mistake.at.line >= 1 && mistake.at.column >= 1 && mistake.at.line <= lines);
    check(mistake.at >= last);
    check(!mistake.problem.problem.empty() && sentence.find('\n') == std::string::npos);
    last = mistake.at;
  }
}

// `text` serves as kernel and library name as well: globs meet what a fuzzer thinks of.
void check_rules(const PolicyFile& file, std::string_view text) {
  RuleMatcher matcher(file.rules);
  matcher.function_seen({1}, text.substr(0, 4096));
  AllocationRequested request;
  request.bytes = 64_MiB;
  const std::string_view caller = text.substr(0, 256);
  const TouchFacts facts{matcher.allocation_rules(request, caller, {1}), SpanClass::kv, {}};
  const Rule* rule = matcher.match_argument({1}, 1, facts);
  check(rule == nullptr || (rule->number >= 1 && rule->number <= matcher.rules().size()));
  rule = matcher.match_allocation(request, caller, {1});
  check(rule == nullptr || rule->match.known_at_allocation());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const PolicyFileReading reading = read_policy_file(text, "fuzz.toml");
  check_mistakes(reading, text);
  check_rules(reading.file, text);
  Settings settings;
  for (const SettingRow& row : setting_table()) {
    if (!row.set(settings, text)) {
      Settings again;
      check(!row.set(again, row.get(settings)) && row.get(again) == row.get(settings));
    }
  }
  if (!reading.ok()) return 0;
  const PolicyFileReading again = read_policy_file(write_policy_file(reading.file, {}), "again.toml");
  check(again.ok() && again.file == reading.file);
  return 0;
}
