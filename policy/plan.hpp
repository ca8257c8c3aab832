// From a replay to a policy file for the next run: what turned out to be cold stays on the host, what turned out to be
// hot stays in HBM. What may be used in parts gets no rule, as a place for all of it would keep the run from looking
// for those in use. Nothing in it is needed for a right result; a person may edit all of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_file.hpp"
#include "policy/replay.hpp"
#include "policy/settings.hpp"

namespace spillway::policy {

// How the title of every plan begins: what starts with it as a comment was written by `plan`.
inline constexpr std::string_view kPlanMark = "A plan made from a trace.";

struct Plan {
  PolicyFile file;
  std::string title;                       // comment above the file
  std::vector<std::string> rule_comments;  // by rule
  std::string why_no_rule;                 // empty if there is one; in the title, too
};

// `settings`: those of the replay (its budget goes into the file). The replay must have kept its decisions.
Plan make_plan(const ReplayResult& result, const Settings& settings);

// The file as text.
std::string write_plan(const Plan& plan);

}  // namespace spillway::policy
