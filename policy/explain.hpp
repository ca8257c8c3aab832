// Decisions in words, for people: what was done and why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/decision.hpp"

namespace spillway::policy {

// "because the window has no room left"
std::string reason_text(Reason reason);

// What rules are called, by number from 1; may be shorter, or empty.
using RuleWords = std::vector<std::string>;
// `rule "adam moments" (training.toml:4)`, or "rule 2" where nobody knows its name.
std::string rule_text(std::uint16_t rule, const RuleWords& words);

// Why, with what counted: "because it is worth least of what is in HBM (taken for optimizer, 0 us saved per iteration
// and MiB)".
std::string explain(const Cause& cause, const RuleWords& rules = {});

// One sentence: "32 MiB at offset 64 MiB of allocation 7 go to the host, in the background, because ..."
std::string explain(const Decision& decision, const RuleWords& rules = {});

}  // namespace spillway::policy
