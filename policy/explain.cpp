#include "policy/explain.hpp"

#include <array>
#include <charconv>

#include "policy/size_text.hpp"
#include "policy/span_class.hpp"

namespace spillway::policy {
namespace {

std::string fixed(float value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 1);
  return {buffer.data(), end.ptr};
}

std::string place_text(Placement placement) {
  switch (placement) {
    case Placement::unpopulated:
      return "nowhere yet";
    case Placement::device:
      return "HBM";
    case Placement::host:
      return "the host";
    case Placement::duplicated:
      return "HBM, with a copy kept on the host";
  }
  return "an unknown place";
}

std::string advice_text(Advice advice) {
  switch (advice) {
    case Advice::accessed_by:
      return "is mapped for the device, so that it never faults while it is on the host";
    case Advice::unset_accessed_by:
      return "is no longer mapped where it is on the host";
    case Advice::prefer_host:
      return "has the host as its preferred place";
    case Advice::prefer_device:
      return "has HBM as its preferred place";
    case Advice::unset_preferred:
      return "has no preferred place any more";
    case Advice::read_mostly:
      return "may be copied, being read only";
    case Advice::unset_read_mostly:
      return "is no longer copied";
    case Advice::probe:
      return "is unmapped on the host, to see whether it is used";
  }
  return "is advised";
}

std::string range_text(AllocationId allocation, Bytes offset, Bytes bytes) {
  return format_bytes(bytes) + " at offset " + format_bytes(offset) + " of allocation " +
         std::to_string(allocation.value);
}

std::string urgency_text(const MoveRange& move) {
  std::string text;
  switch (move.urgency) {
    case Urgency::background:
      text = "in the background";
      break;
    case Urgency::deadline:
      text = "ahead of launch " + grouped(move.before.value);
      break;
    case Urgency::blocking:
      text = "at once";
      break;
  }
  if (move.after) text += ", after launch " + grouped(move.after.value);
  return text;
}

struct InWords {
  bool partly = false;  // of BackAllocation: not all of it has room in HBM

  std::string operator()(const BackAllocation& back) const {
    const std::string name = "allocation " + std::to_string(back.allocation.value);
    if (back.backing == Backing::device) return name + " is plain device memory";
    if (back.first == Placement::unpopulated) return name + " is managed memory, populated by its first use";
    if (back.first == Placement::device && partly)
      return name + " is managed memory, part of it in HBM and the rest on the host";
    return name + " is managed memory, " +
           (back.first == Placement::device ? "in HBM" : "on " + place_text(back.first)) + " at first";
  }
  std::string operator()(const RefuseAllocation& refuse) const {
    return "allocation " + std::to_string(refuse.allocation.value) + " is refused, " + format_bytes(refuse.missing) +
           " too large";
  }
  std::string operator()(const MoveRange& move) const {
    return range_text(move.allocation, move.offset, move.bytes) + " goes to " + place_text(move.to) + ", " +
           urgency_text(move);
  }
  std::string operator()(const AdviseRange& advise) const {
    return range_text(advise.allocation, advise.offset, advise.bytes) + " " + advice_text(advise.advice);
  }
  std::string operator()(const CancelMoves& cancel) const {
    return "queued moves of allocation " + std::to_string(cancel.allocation.value) + " are dropped: it is being freed";
  }
  std::string operator()(const Note& note) const { return note.text; }
  std::string operator()(const MarkProgress& mark) const {
    return mark.every == 0 ? std::string("how far the device is need not be told any more")
                           : "how far the device is shall be told at about one launch in " + std::to_string(mark.every);
  }
};

// Memory that can spill is mapped as it is allocated, wherever it is put: the cause says why it was put there.
bool is_always_done(const Decision& decision) {
  const auto* advise = std::get_if<AdviseRange>(&decision.body);
  if (advise == nullptr || advise->advice != Advice::accessed_by) return false;
  const Reason reason = decision.cause.reason;
  return reason == Reason::window_room || reason == Reason::window_full || reason == Reason::rule;
}

}  // namespace

std::string reason_text(Reason reason) {
  switch (reason) {
    case Reason::mode:
      return "because the mode always does this";
    case Reason::rule:
      return "because a rule says so";
    case Reason::small:
      return "because it is too small to be worth spilling";
    case Reason::not_spillable:
      return "because this kind of memory cannot be spilled here";
    case Reason::fits:
      return "because nothing says yet that this run will spill";
    case Reason::expected_spill:
      return "because this run is expected to spill";
    case Reason::window_room:
      return "because the window has room for it";
    case Reason::window_full:
      return "because the window has no room left";
    case Reason::host_budget:
      return "because the host memory that may be used is used up";
    case Reason::device_budget:
      return "because the device budget is used up";
    case Reason::least_recent:
      return "because it was launched on least recently";
    case Reason::next_use:
      return "because its next use is furthest away";
    case Reason::upcoming_use:
      return "because it is needed soon";
    case Reason::worth:
      return "because of what it is worth in HBM, compared with the rest";
    case Reason::read_only:
      return "because nothing writes it";
    case Reason::sparse:
      return "because little of it is touched at a time";
    case Reason::watchdog:
      return "because an earlier change made its phase slower";
    case Reason::learned_class:
      return "because of what it was found to hold";
    case Reason::over_working_set:
      return "because one launch touches more than the window holds";
    case Reason::oom_first:
      return "so that the program may free memory before any of it spills";
    case Reason::hot:
      return "because it was seen in use";
    case Reason::second_chance:
      return "because of its range it has been in HBM longest without being seen in use";
    case Reason::turn:
      return "as it takes turns in HBM with other memory of the iteration";
    case Reason::turns_end:
      return "because nothing takes turns in HBM any more";
  }
  return "for a reason that this version does not know";
}

std::string rule_text(std::uint16_t rule, const RuleWords& words) {
  return "rule " + (rule != 0 && rule <= words.size() ? words[rule - 1U] : std::to_string(rule));
}

std::string explain(const Cause& cause, const RuleWords& rules) {
  std::string text = reason_text(cause.reason);
  std::string details;
  const auto add = [&details](const std::string& detail) { details += (details.empty() ? "" : ", ") + detail; };
  if (cause.rule != 0) add(rule_text(cause.rule, rules));
  if (cause.span_class != 0 && cause.span_class < kSpanClassNames.size()) {
    // Of these bytes, at this time: what most of the allocation is said to hold (class_share.hpp) may be another.
    add("taken for " + std::string(kSpanClassNames[cause.span_class]));
  }
  const bool by_worth = cause.reason == Reason::worth || cause.reason == Reason::learned_class;
  if (by_worth) add(fixed(cause.worth) + " us saved per iteration and MiB");
  if (cause.launch) add("decided at launch " + grouped(cause.launch.value));
  return details.empty() ? text : text + " (" + details + ")";
}

std::string explain(const Decision& decision, const RuleWords& rules) {
  const auto* back = std::get_if<BackAllocation>(&decision.body);
  const bool partly =
      back != nullptr && back->first == Placement::device && decision.cause.reason == Reason::window_full;
  std::string what = std::visit(InWords{partly}, decision.body);
  // Only map-style memory is on the host for that reason.
  if (back != nullptr && back->first == Placement::host && decision.cause.reason == Reason::device_budget)
    what = "allocation " + std::to_string(back->allocation.value) + " is host memory, mapped, for good";
  if (std::holds_alternative<Note>(decision.body) || std::holds_alternative<CancelMoves>(decision.body) ||
      std::holds_alternative<MarkProgress>(decision.body))
    return what;
  if (partly) return what + ", because the window has no room for all of it";
  if (is_always_done(decision)) return what + ", as all memory that can spill is";
  return what + ", " + explain(decision.cause, rules);
}

}  // namespace spillway::policy
