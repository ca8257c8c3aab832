// A policy file: settings by table, and rules of which the first that matches wins. Text in, settings and rules out,
// with every mistake in it at once. Whoever has a file reads it and passes its text.
//
// With mistakes the launcher refuses to start and a bare preload runs as if no file was given; the partial result is
// for reports only.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "policy/policy_mistake.hpp"
#include "policy/rule.hpp"
#include "policy/settings.hpp"

namespace spillway::policy {

struct PolicyFile {
  Settings settings;
  std::vector<Rule> rules;
  friend bool operator==(const PolicyFile&, const PolicyFile&) = default;
};

struct PolicyFileReading {
  PolicyFile file;
  std::vector<PolicyMistake> mistakes;  // in the order of the text
  [[nodiscard]] bool ok() const { return mistakes.empty(); }
};

// More than this is no file that a person or `plan` wrote.
inline constexpr std::size_t kLongestPolicyFile = std::size_t{1} << 20U;

// `file_name` is only for the messages.
PolicyFileReading read_policy_file(std::string_view text, std::string_view file_name);

}  // namespace spillway::policy
