// Words for the trace's enums, as exports, JSON and tables write them. Stable: other people's queries depend on them.
#pragma once

#include <cstdint>
#include <string>

#include "policy/decision.hpp"
#include "policy/explain.hpp"
#include "policy/trace/header.hpp"
#include "tools/run_follower.hpp"
#include "tools/trace_summary.hpp"  // name_of: reasons and kinds of allocation

namespace spillway::tools {

const char* csv_name(policy::AllocationKind kind);  // one word: "stream_ordered"
const char* backing_name(policy::Backing backing);
const char* placement_name(policy::Placement placement);
const char* copy_name(policy::CopyKind kind);
const char* outcome_name(policy::MoveOutcome outcome);
const char* page_traffic_name(policy::PageTraffic traffic);
const char* urgency_name(policy::Urgency urgency);
const char* decision_kind_name(const policy::DecisionBody& body);  // one word: "move"
std::string iterations_text(const IterationsSeen& seen);           // "18 whole, then 19 (not whole)", "none was found"
// By the header's names: `"adam moments" (training.toml:4)`, harmless to print.
policy::RuleWords rule_words(const policy::trace::TraceHeader& header);
std::string policy_file_of(const policy::trace::TraceHeader& header);  // empty: none
// The recorded run's; those that this version does not know keep their defaults.
policy::Settings settings_of(const policy::trace::TraceHeader& header);
std::string span_class_name(std::uint16_t span_class);  // "unknown" for 0, "newer_17" for what we do not know

}  // namespace spillway::tools
