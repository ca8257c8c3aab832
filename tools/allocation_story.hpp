// The life of one allocation out of a trace: who asked for it, where it was put and why, each decision about it and
// what came of it, who used it, what it cost, and its end. The work behind `spillway stats --explain`.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/explain.hpp"
#include "policy/trace/trace_reader.hpp"
#include "tools/run_follower.hpp"

namespace spillway::tools {

// What --explain names.
struct AllocationName {
  policy::AllocationId id;  // none: by address
  policy::Address address;
};
// "17", or "0x7f3a00000000" for the allocation that holds this address; nothing if it is neither.
std::optional<AllocationName> parse_allocation_name(const std::string& text);

// One thing that happened, in the order of the trace.
struct StoryLine {
  policy::Nanoseconds time;
  std::uint64_t launch = 0;  // launches before it
  std::string kind;          // "asked", "decision", "settled", "copied", "freeing", "freed", "failed"
  policy::DecisionId decision;
  std::string text;     // a sentence without its full stop
  std::string outcome;  // of a move; empty while it is open
};

struct KernelUse {
  std::string name;  // mangled
  std::uint64_t launches = 0;
  std::uint64_t first = 0;  // launch numbers
  std::uint64_t last = 0;
  std::set<std::uint16_t> arguments;  // that pointed into it, of the first kMostShapes shapes of the trace
};

struct AllocationStory {
  FollowedAllocation allocation;  // as it was last seen
  bool found = false;
  bool freed = false;
  bool refused = false;
  std::string caller;
  std::string completeness;  // of the trace
  policy::Nanoseconds end;   // of the allocation, or of the trace
  std::vector<StoryLine> lines;
  std::uint64_t lines_left_out = 0;            // beyond kMostLines
  std::map<std::uint32_t, KernelUse> kernels;  // by function
  std::map<std::uint16_t, std::pair<std::uint64_t, policy::DecisionId>>
      classes;                        // decisions that say so, and the first
  std::uint64_t launches = 0;         // that name it; of graphs, one each
  std::uint64_t iterations = 0;       // in its life
  std::uint64_t iterations_used = 0;  // of these, with a launch that names it
  std::uint64_t copies = 0;
  policy::Bytes copied;
  policy::Bytes in, out, populated, refetched, useless;
  std::uint64_t moves = 0;
  std::uint64_t moves_failed = 0;     // by the driver, or cancelled
  policy::Nanoseconds moving;         // inside move calls
  std::vector<std::uint32_t> others;  // ids of earlier allocations at the same address

  static constexpr std::size_t kMostLines = 100'000;
  static constexpr std::size_t kMostShapes = std::size_t{1} << 17;
};

struct StoryReading {
  AllocationStory story;
  std::optional<std::string> problem;  // one sentence: the file cannot be read, or there is no such allocation
};
StoryReading read_story(const std::string& path, const AllocationName& name);

// `most_lines` decisions are shown: the first and the last ones; the rest is counted.
// `width` is that of the terminal; 0: none.
std::string story_text(const AllocationStory& story, std::size_t most_lines, std::size_t width = 0);
nlohmann::ordered_json story_json(const AllocationStory& story);

}  // namespace spillway::tools
