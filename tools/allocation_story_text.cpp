// The story of an allocation as a page and as JSON.
#include <algorithm>
#include <cstdio>

#include "policy/demangle.hpp"
#include "policy/span_class.hpp"
#include "tools/allocation_story.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

std::string moment(Nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%10.6f s", static_cast<double>(time.count()) / 1e9);
  return text;
}

std::string class_name(std::uint16_t span_class) {
  return span_class < kSpanClassNames.size() ? std::string(kSpanClassNames[span_class]) : "of a newer spillway";
}

std::string title(const AllocationStory& story) {
  const FollowedAllocation& of = story.allocation;
  std::string text = "Allocation " + std::to_string(of.id.value) + ": " + format_bytes(of.bytes);
  if (story.refused) return text + ", refused\n";
  if (!of.settled) return text + ", never given\n";
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(of.address.value));
  const bool for_good = of.kind == AllocationKind::stretchable;
  const char* what = of.backing == Backing::device ? " of plain device memory"
                     : for_good                    ? " of host memory, mapped,"
                                                   : " of managed memory";
  return text + what + " at " + address + " on device " + std::to_string(of.device.value) + "\n";
}

std::string lines_text(const AllocationStory& story, std::size_t most) {
  std::string out;
  const std::size_t count = story.lines.size();
  const std::size_t last = count > most ? most / 4 : 0;
  const std::size_t first = count > most ? most - last : count;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == first && count > most) {
      out += "  ... " + grouped(count - first - last) + " more in between (--top, or --json for all)\n";
      i = count - last;
      if (i == count) break;
    }
    const StoryLine& line = story.lines[i];
    out += "  " + moment(line.time) + "  " + harmless(line.text);
    if (line.decision) out += " [decision " + std::to_string(line.decision.value) + "]";
    if (!line.outcome.empty()) out += "; " + line.outcome;
    out += ".\n";
  }
  if (story.lines_left_out > 0) out += "  and " + grouped(story.lines_left_out) + " more that were not kept.\n";
  return out;
}

// "0, 2": from 0, as a rule of a policy file counts them.
std::string listed(const std::set<std::uint16_t>& arguments) {
  std::string text;
  for (const std::uint16_t argument : arguments) text += (text.empty() ? "" : ", ") + std::to_string(argument);
  return text;
}

std::string use_text(const AllocationStory& story, std::size_t most_kernels, std::size_t width) {
  // The recorder keeps pointers into allocations of a chunk and more only.
  const bool recorded = story.allocation.bytes >= kChunk;
  std::string out =
      recorded ? "Used by " + grouped(story.launches) + (story.launches == 1 ? " launch" : " launches")
               : std::string("Smaller than 2 MiB, so launches that use it are not recorded; used by none known");
  if (story.copies > 0) {
    out += " and " + counted(story.copies, "copy or fill", "copies or fills") + " of the program (" +
           format_bytes(story.copied) + ")";
  }
  if (story.iterations > 0) {
    out +=
        ", in " + grouped(story.iterations_used) + " of the " + grouped(story.iterations) + " iterations of its life";
  }
  out += ".\n";
  std::vector<KernelUse> kernels;
  for (const auto& [function, use] : story.kernels) kernels.push_back(use);
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return a.launches > b.launches; });
  TextTable table({{"launches"}, {"first"}, {"last"}, {"kernel", Align::left}, {"argument", Align::left}});
  for (std::size_t i = 0; i < std::min(kernels.size(), most_kernels); ++i) {
    table.add({grouped(kernels[i].launches), grouped(kernels[i].first), grouped(kernels[i].last),
               harmless(demangled(kernels[i].name)), listed(kernels[i].arguments)});
  }
  if (!table.empty()) out += table.str(width);
  if (kernels.size() > most_kernels) out += "  and " + grouped(kernels.size() - most_kernels) + " more kernels\n";
  return out;
}

// The class is the one that the tables show: what most of its bytes were said to be, by the end.
std::string class_text(const AllocationStory& story) {
  const std::uint16_t most = story.allocation.span_class();
  if (story.classes.empty()) return "Class: unknown; no decision of this trace names one for it.\n";
  const auto evidence = [](const auto& said) {
    return counted(said.first, "decision", "decisions") + ", first " + std::to_string(said.second.value);
  };
  std::string out = "Class: " + class_name(most);
  if (const auto said = story.classes.find(most); said != story.classes.end()) {
    out += ", in " + std::to_string(story.allocation.said.percent(most)) + "% of the bytes that decisions named (" +
           evidence(said->second) + ")";
  }
  for (const auto& [span_class, said] : story.classes) {
    if (span_class != most) out += "; some said " + class_name(span_class) + " (" + evidence(said) + ")";
  }
  return out + ". The evidence is its use, above.\n";
}

std::string cost_text(const AllocationStory& story) {
  std::string out = "Cost: " + grouped(story.moves) + (story.moves == 1 ? " move" : " moves");
  if (story.moves_failed > 0) out += " (" + grouped(story.moves_failed) + " failed or cancelled)";
  out += ", " + format_bytes(story.in) + " in and " + format_bytes(story.out) + " out over the link";
  if (story.refetched != Bytes()) out += ", " + format_bytes(story.refetched) + " of it in again";
  if (story.useless != Bytes()) out += ", " + format_bytes(story.useless) + " in for nothing";
  char took[32];
  std::snprintf(took, sizeof took, "%.3f ms", static_cast<double>(story.moving.count()) / 1e6);
  out += std::string(", ") + took + " inside move calls.\n";
  if (story.allocation.host_bytes != Bytes()) {
    out += "Launches named " + format_bytes(story.allocation.host_bytes) +
           " of it while on the host, all together: the most they can have read or written in place.\n";
  }
  return out;
}

std::string end_text(const AllocationStory& story) {
  const FollowedAllocation& of = story.allocation;
  std::string out;
  if (story.freed) {
    char life[32];
    std::snprintf(life, sizeof life, "%.6f s", static_cast<double>((story.end - of.asked).count()) / 1e9);
    out = std::string("Freed after ") + life + ".\n";
  } else if (!story.refused && of.settled) {
    out = "Alive at the end of the trace";
    if (of.backing == Backing::managed) {
      out += ", with " + format_bytes(of.in_hbm) + " in HBM and " + format_bytes(of.on_host) + " on the host";
    }
    out += ".\n";
  }
  if (!story.others.empty()) {
    out += "Before it, allocation";
    const std::size_t shown = std::min<std::size_t>(story.others.size(), 10);
    for (std::size_t i = story.others.size() - shown; i < story.others.size(); ++i) {
      out += " " + std::to_string(story.others[i]);
    }
    out += std::string(story.others.size() > shown ? " and earlier ones" : "") + " held that address.\n";
  }
  if (story.completeness != "whole") out += "The trace is not whole: " + story.completeness + ".\n";
  return out;
}

}  // namespace

std::string story_text(const AllocationStory& story, std::size_t most_lines, std::size_t width) {
  std::string out = title(story) + "\n" + lines_text(story, most_lines) + "\n";
  if (story.allocation.settled && !story.refused) {
    out += use_text(story, most_lines, width) + class_text(story) + cost_text(story);
  }
  return out + end_text(story);
}

nlohmann::ordered_json story_json(const AllocationStory& story) {
  using Json = nlohmann::ordered_json;
  const FollowedAllocation& of = story.allocation;
  Json lines = Json::array();
  for (const StoryLine& line : story.lines) {
    Json one = {{"time_ns", line.time.count()}, {"launches", line.launch}, {"kind", line.kind}, {"text", line.text}};
    if (line.decision) one["decision"] = line.decision.value;
    if (!line.outcome.empty()) one["outcome"] = line.outcome;
    lines.push_back(std::move(one));
  }
  Json kernels = Json::array();
  for (const auto& [function, use] : story.kernels) {
    kernels.push_back({{"name", use.name},
                       {"demangled", demangled(use.name)},
                       {"launches", use.launches},
                       {"first", use.first},
                       {"last", use.last},
                       {"arguments", use.arguments}});
  }
  Json classes = Json::array();
  for (const auto& [span_class, said] : story.classes) {
    classes.push_back(
        {{"class", class_name(span_class)}, {"decisions", said.first}, {"first_decision", said.second.value}});
  }
  return {{"allocation", of.id.value},
          {"device", of.device.value},
          {"kind", name_of(of.kind)},
          {"caller", story.caller},
          {"address", of.address.value},
          {"bytes", of.bytes.count()},
          {"backing", !of.settled                      ? "none"
                      : of.backing == Backing::managed ? "managed"
                                                       : "device"},
          {"refused", story.refused},
          {"asked_ns", of.asked.count()},
          {"end_ns", story.end.count()},
          {"freed", story.freed},
          {"in_hbm", of.in_hbm.count()},
          {"on_host", of.on_host.count()},
          {"launches", story.launches},
          {"iterations", story.iterations},
          {"iterations_used", story.iterations_used},
          {"copies", story.copies},
          {"copied", story.copied.count()},
          {"moves", story.moves},
          {"moves_failed", story.moves_failed},
          {"moved_in", story.in.count()},
          {"moved_out", story.out.count()},
          {"populated", story.populated.count()},
          {"refetched", story.refetched.count()},
          {"useless", story.useless.count()},
          {"moving_ns", story.moving.count()},
          {"host_bytes", of.host_bytes.count()},
          {"class", class_name(story.allocation.span_class())},
          {"classes", std::move(classes)},
          {"kernels", std::move(kernels)},
          {"earlier_at_this_address", story.others},
          {"completeness", story.completeness},
          {"lines_left_out", story.lines_left_out},
          {"lines", std::move(lines)}};
}

}  // namespace spillway::tools
