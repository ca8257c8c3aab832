#include "policy/plan.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "policy/policy_file_writer.hpp"
#include "policy/size_text.hpp"
#include "policy/span_class.hpp"

namespace spillway::policy {
namespace {

// Allocations smaller than this are not worth a rule of their own.
constexpr Bytes kWorthARule = 32_MiB;
constexpr std::size_t kMostPlacementRules = 128;
// A class gets a rule if this share of what was moved of it went to the host.
constexpr double kMostly = 0.75;

struct Tide {
  Bytes out, in;
};

std::array<Tide, kSpanClassNames.size()> tides(const ReplayResult& result) {
  std::array<Tide, kSpanClassNames.size()> all{};
  for (const Decision& decision : result.decisions) {
    const auto* move = std::get_if<MoveRange>(&decision.body);
    if (move == nullptr || decision.cause.span_class >= all.size()) continue;
    const bool planned = decision.cause.reason == Reason::worth || decision.cause.reason == Reason::learned_class;
    if (!planned) continue;
    (move->to == Placement::host ? all[decision.cause.span_class].out : all[decision.cause.span_class].in) +=
        move->bytes;
  }
  return all;
}

void add_rule(Plan& plan, Rule rule, std::string comment) {
  rule.number = static_cast<std::uint16_t>(plan.file.rules.size() + 1);
  plan.file.rules.push_back(std::move(rule));
  plan.rule_comments.push_back(std::move(comment));
}

void add_class_rules(Plan& plan, const ReplayResult& result) {
  const auto all = tides(result);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const double out = static_cast<double>(all[i].out.count()), in = static_cast<double>(all[i].in.count());
    if (all[i].out < kWorthARule || out < kMostly * (out + in)) continue;
    Rule rule;
    rule.name = std::string(kSpanClassNames[i]) + " first";
    rule.match.classes = {static_cast<SpanClass>(i)};
    rule.action.evict = EvictClass::first;
    add_rule(plan, rule, format_bytes(all[i].out) + " of it were sent to the host: it is used least for its size.");
  }
}

// Where memory was in the end; a program that frees everything before it ends is taken at its frees.
std::vector<FinalPlacement> lasting(const ReplayResult& result) {
  std::vector<FinalPlacement> all;
  std::merge(result.placements.begin(), result.placements.end(), result.freed.begin(), result.freed.end(),
             std::back_inserter(all), [](const auto& a, const auto& b) { return a.order < b.order; });
  return all;
}

// Of what is large enough for a rule.
Bytes used_in_parts(const std::vector<FinalPlacement>& placements) {
  Bytes bytes;
  for (const FinalPlacement& placement : placements) {
    if (placement.bytes >= kWorthARule && placement.found == UseFound::in_parts) bytes += placement.bytes;
  }
  return bytes;
}

std::string in_parts_sentence(Bytes bytes) {
  return "No rule for " + format_bytes(bytes) +
         " that may be used in parts, as caches and tables are: the run finds which are in use, and brings those in.";
}

std::string took_turns_sentence(Bytes bytes) {
  return "No rule for " + format_bytes(bytes) +
         " that took turns in HBM within an iteration, or made room for that: a place would forbid it.";
}

Bytes that_took_turns(const std::vector<FinalPlacement>& placements) {
  Bytes bytes;
  for (const FinalPlacement& placement : placements) {
    if (placement.bytes >= kWorthARule && placement.took_turns) bytes += placement.bytes;
  }
  return bytes;
}

// What is in HBM without a rule needs none.
bool all_fits(const ReplayResult& result, const std::vector<FinalPlacement>& placements) {
  return result.measured.model.crossed() == 0 &&
         std::all_of(placements.begin(), placements.end(),
                     [](const FinalPlacement& placement) { return placement.on_host == Bytes(); });
}

std::string why_no_rule(const ReplayResult& result, const std::vector<FinalPlacement>& placements) {
  if (placements.empty())
    return "No rule: no allocation that can spill was there at the end or for half of the launches.";
  if (all_fits(result, placements)) return "No rule: under this budget everything is in HBM.";
  std::vector<FinalPlacement> large = placements;
  std::erase_if(large, [](const FinalPlacement& placement) { return placement.bytes < kWorthARule; });
  if (large.empty()) return "No rule: no allocation that lasted has " + format_bytes(kWorthARule) + " or more.";
  const bool nothing_found = std::all_of(
      large.begin(), large.end(), [](const FinalPlacement& placement) { return placement.found == UseFound::nothing; });
  if (nothing_found)
    return "No rule: this trace is too short to tell what earns a place in HBM; record more launches of what repeats.";
  if (const Bytes parts = used_in_parts(large); parts > Bytes()) return in_parts_sentence(parts);
  if (const Bytes turns = that_took_turns(large); turns > Bytes()) return took_turns_sentence(turns);
  return "No rule: no allocation of " + format_bytes(kWorthARule) +
         " or more was wholly in HBM or wholly on the host; what is hot in them is found during the run.";
}

// Neighbours in order of allocation that ended in the same place share a rule.
void add_allocation_rules(Plan& plan, const std::vector<FinalPlacement>& placements) {
  enum class Where : std::uint8_t { mixed, host, device };
  const auto where = [](const FinalPlacement& placement) {
    if (placement.bytes < kWorthARule || placement.found != UseFound::as_whole || placement.took_turns)
      return Where::mixed;
    if (placement.on_host == placement.bytes) return Where::host;
    return placement.in_hbm == placement.bytes ? Where::device : Where::mixed;
  };
  std::size_t made = 0;
  for (std::size_t i = 0; i < placements.size() && made < kMostPlacementRules;) {
    const Where here = where(placements[i]);
    std::size_t end = i + 1;
    Bytes bytes = placements[i].bytes, least = bytes;
    while (end < placements.size() && where(placements[end]) == here) {
      bytes += placements[end].bytes;
      least = std::min(least, placements[end].bytes);
      ++end;
    }
    if (here != Where::mixed) {
      Rule rule;
      const auto first = placements[i].order, last = placements[end - 1].order;
      rule.name = first == last ? "allocation " + std::to_string(first)
                                : "allocations " + std::to_string(first) + " to " + std::to_string(last);
      rule.match.order_first = {first};
      rule.match.order_last = {last};
      rule.match.size_least = least;
      rule.action.place = here == Where::host ? RulePlace::host : RulePlace::device;
      add_rule(plan, rule,
               format_bytes(bytes) + (here == Where::host ? " that earned no place in HBM." : " that stayed in HBM."));
      ++made;
    }
    i = end;
  }
}

}  // namespace

Plan make_plan(const ReplayResult& result, const Settings& settings) {
  Plan plan;
  plan.file.settings = settings;
  plan.file.settings.mode = ModeName::adaptive;
  plan.file.settings.trace_path.clear();
  plan.file.settings.trace_max_size = {};
  plan.title = std::string(kPlanMark) +
               " Every line may be changed or removed. A place holds for the whole run; what has no rule is placed by "
               "what the run finds.";
  const std::vector<FinalPlacement> placements = lasting(result);
  // What is known of single allocations comes first: the first rule that matches wins.
  if (!all_fits(result, placements)) {
    add_allocation_rules(plan, placements);
    add_class_rules(plan, result);
  }
  if (plan.file.rules.empty()) {
    plan.why_no_rule = why_no_rule(result, placements);
    plan.title += "\n" + plan.why_no_rule;
  } else {
    if (const Bytes parts = used_in_parts(placements); parts > Bytes()) plan.title += "\n" + in_parts_sentence(parts);
    if (const Bytes turns = that_took_turns(placements); turns > Bytes())
      plan.title += "\n" + took_turns_sentence(turns);
  }
  return plan;
}

std::string write_plan(const Plan& plan) { return write_policy_file(plan.file, {plan.title, plan.rule_comments}); }

}  // namespace spillway::policy
