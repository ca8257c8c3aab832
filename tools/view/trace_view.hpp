// Makes the page's data out of a trace, record by record: one pass, bounded memory. Which figures a page has, and what
// is left out of a very long trace and said to be, is decided here and in the parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/trace/trace_reader.hpp"
#include "tools/run_follower.hpp"
#include "tools/trace_summary.hpp"
#include "tools/view/allocations.hpp"
#include "tools/view/blocks.hpp"
#include "tools/view/decisions.hpp"
#include "tools/view/moves.hpp"
#include "tools/view/residency_series.hpp"
#include "tools/view/timeline.hpp"

namespace spillway::tools::view {

// What goes into a page of one trace: the directory, and the blocks that it names.
struct ViewData {
  Json directory;
  std::vector<std::string> blocks;
};

// The text is what is wrong with a file that cannot be read.
struct ViewReading {
  ViewData data;
  TraceSummary summary;
  std::optional<std::string> problem;
};

class TraceView {
 public:
  void begin(const policy::trace::TraceHeader& header);
  void add(const policy::trace::Record& record);
  // Once, at the end.
  ViewReading finish(const std::string& path, const policy::trace::TraceReader& reader);

 private:
  struct EventAdder;
  void decide(policy::Nanoseconds time, const policy::Decision& decision);
  void note_residency(policy::Nanoseconds time);
  void note_iteration(policy::Nanoseconds time);
  Json iterations_json(policy::Nanoseconds end);
  Json devices_json(const TraceSummary& summary);

  RunFollower run_;
  TraceSummarizer summarizer_{run_};
  Blocks blocks_;
  Allocations allocations_;
  Timeline timeline_{blocks_};
  Moves moves_;
  Decisions decisions_;
  std::vector<ResidencySeries> residency_;  // by device
  // Where iterations end; the first: where one was found.
  Column iteration_time_, iteration_launches_, iteration_found_, iteration_whole_;
};

ViewReading view_trace(const std::string& path);

}  // namespace spillway::tools::view
