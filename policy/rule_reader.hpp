// One [[rule]] table of a policy file into a Rule.
#pragma once

#include <cstdint>

#include "policy/policy_mistake.hpp"
#include "policy/rule.hpp"
#include "policy/toml_document.hpp"

namespace spillway::policy {

// What cannot be read is left as if absent, and named in `mistakes`. `is_whole`: no line of it was lost to a syntax
// error, so that a key that is missing really is.
Rule read_rule(const TomlNode& table, std::uint16_t number, bool is_whole, MistakeList& mistakes);

// The `match` of a rule; `subject` names the rule in messages.
RuleMatch read_rule_match(const TomlNode& table, std::string_view subject, MistakeList& mistakes);

}  // namespace spillway::policy
