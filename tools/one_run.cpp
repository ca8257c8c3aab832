#include "tools/one_run.hpp"

#include <algorithm>

#include "tools/text_table.hpp"
#include "tools/wall_clock.hpp"

namespace spillway::tools {
namespace {

// Headers give whole seconds, and clocks of hosts differ.
constexpr std::int64_t kSlack = 60;

bool related(const TraceSummary& a, const TraceSummary& b) {
  return a.header.parent_pid == b.header.pid || b.header.parent_pid == a.header.pid;
}

std::string different(const TraceSummary& a, const TraceSummary& b, const std::string& why) {
  return harmless(a.path) + " and " + harmless(b.path) + " are of different runs: " + why;
}

// Of one host, so of one clock. Both may be parts of one script, so this is no reason to refuse totals.
std::optional<std::string> one_after_the_other(const TraceSummary& a, const TraceSummary& b) {
  const auto begin_a = seconds_of(a.header.start), begin_b = seconds_of(b.header.start);
  if (!begin_a || !begin_b || a.header.host != b.header.host || related(a, b)) return std::nullopt;
  const TraceSummary& first = *begin_a <= *begin_b ? a : b;
  const TraceSummary& second = *begin_a <= *begin_b ? b : a;
  constexpr std::int64_t kRounded = 1;  // both are whole seconds
  const std::int64_t end = std::min(*begin_a, *begin_b) + first.duration.count() / 1'000'000'000;
  if (std::max(*begin_a, *begin_b) <= end + kRounded) return std::nullopt;
  return "note: " + harmless(second.path) + " began after " + harmless(first.path) +
         " had ended; totals add up both, so name the traces of one run if they are of two";
}

}  // namespace

std::optional<std::string> why_not_one_run(const std::vector<TraceSummary>& summaries) {
  struct Life {
    const TraceSummary* of;
    std::int64_t begin;
    std::int64_t end;
  };
  std::vector<Life> lives;
  for (const TraceSummary& one : summaries) {
    if (const auto begin = seconds_of(one.header.start)) {
      lives.push_back({&one, *begin, *begin + one.duration.count() / 1'000'000'000});
    }
  }
  std::stable_sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.begin < b.begin; });
  const Life* longest = nullptr;
  for (const Life& life : lives) {
    if (longest != nullptr && life.begin > longest->end + kSlack) {
      return different(*longest->of, *life.of,
                       "the second began at " + harmless(life.of->header.start) + ", after the first had ended");
    }
    if (longest == nullptr || life.end > longest->end) longest = &life;
  }
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    for (std::size_t k = i + 1; k < summaries.size(); ++k) {
      const TraceSummary& a = summaries[i];
      const TraceSummary& b = summaries[k];
      if (a.header.rank.empty() || a.header.rank != b.header.rank || related(a, b)) continue;
      if (a.header.program != b.header.program || a.header.arguments != b.header.arguments) {
        return different(a, b, "both are rank " + harmless(a.header.rank) + ", of different command lines");
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> different_programs(const std::vector<TraceSummary>& summaries) {
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    for (std::size_t k = i + 1; k < summaries.size(); ++k) {
      const TraceSummary& a = summaries[i];
      const TraceSummary& b = summaries[k];
      if (const auto note = one_after_the_other(a, b)) return note;
      const bool siblings = a.header.parent_pid == b.header.parent_pid && a.header.host == b.header.host;
      if (a.header.program == b.header.program || siblings || related(a, b)) continue;
      return "note: " + harmless(a.path) + " is of " + harmless(a.header.program) + ", " + harmless(b.path) + " of " +
             harmless(b.header.program) + "; totals add up both, so name the traces of one run if they are of two";
    }
  }
  return std::nullopt;
}

}  // namespace spillway::tools
