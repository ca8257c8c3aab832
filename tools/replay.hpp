// What a trace would have cost under other policies and budgets: the work behind `spillway replay` and `spillway plan`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "policy/policy_file.hpp"
#include "policy/replay.hpp"
#include "tools/trace_events.hpp"

namespace spillway::tools {

struct NamedPolicy {
  std::string name;  // as the user gave it: a file or a mode
  policy::PolicyFile file;
};

// A policy file, or the name of a mode ("demand"), which takes its other settings from `recorded`. A problem is one
// sentence with the remedy, or the file's mistakes.
std::optional<std::string> load_policy(const std::string& text, NamedPolicy& policy,
                                       const policy::Settings& recorded = {});

struct ReplayRequest {
  std::optional<policy::SizeOrShare> budget;  // in place of the policies' own
  std::optional<std::uint64_t> from_launch;   // figures from there; unset: from the middle of the trace
  policy::ReplayOptions::Keep keep = policy::ReplayOptions::Keep::figures;
  policy::ReplayOptions::WithBounds bounds = policy::ReplayOptions::WithBounds::yes;
  // Where memory is refused, the least budget that would do is looked for, by more replays.
  enum class LeastBudget : std::uint8_t { not_wanted, wanted } least_budget = LeastBudget::not_wanted;
};

struct NamedReplay {
  std::string name;
  policy::PolicyFile policy;
  policy::ReplayResult result;
  policy::Bytes least_budget;  // under which nothing is refused, if asked for; zero: nothing was, or it is not known
};

std::vector<NamedReplay> replay_all(const TraceEvents& trace, const std::vector<NamedPolicy>& policies,
                                    const ReplayRequest& request);
// The same, for a person: what went wrong, with the name of the trace.
std::optional<std::string> try_replay(const std::string& path, const TraceEvents& trace,
                                      const std::vector<NamedPolicy>& policies, const ReplayRequest& request,
                                      std::vector<NamedReplay>& replays);

// What to say of a trace in which nothing can be replayed.
std::string no_launch(const std::string& path, const TraceEvents& trace);

// Periods of the policy in the measured part; 0 if it found none. What `stats` calls an iteration is found by other
// means (iteration_finder.hpp), and may be part of a period or several.
double iterations(const policy::ReplayResult& result);

// That the recorded card had less than the budget that was asked for; empty if it had not.
std::string budget_remark(const policy::ReplayResult& result);

std::string replay_text(const TraceEvents& trace, const std::vector<NamedReplay>& replays, std::size_t width = 0);
nlohmann::ordered_json replay_json(const TraceEvents& trace, const std::vector<NamedReplay>& replays);

}  // namespace spillway::tools
