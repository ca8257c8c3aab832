// What `spillway run --summary` says after the run, from the traces that the run wrote.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "policy/units.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {

// Why no trace can be written to this pattern, one sentence with the remedy; nothing where only the run can tell (a
// placeholder in the folder, a relative path).
std::optional<std::string> trace_place_problem(const std::string& pattern);

// What is known at the end of a run of a place that traces went to.
struct TracePlace {
  std::optional<policy::Bytes> free;  // on its disk; nothing: not known
  bool writer_runs = false;           // the process whose trace it is (a child that goes on)
};
// Why a trace is not whole, for somebody whose run has ended; empty for a whole one.
std::string why_partial(const TraceSummary& summary, const TracePlace& place);
// Why an empty trace is empty, and what to do.
std::string why_empty(const TracePlace& place);

class RunSummary {
 public:
  // `pattern` is the trace path of the run; empty: traces go to a folder of our own and are removed after the report.
  explicit RunSummary(std::string pattern) : pattern_(std::move(pattern)) {}
  ~RunSummary();
  RunSummary(const RunSummary&) = delete;
  RunSummary& operator=(const RunSummary&) = delete;

  // Before the program starts; sets SPILLWAY_TRACE_PATH if the run had none.
  std::optional<std::string> prepare();
  // After it ended, on stderr.
  void report() const;

 private:
  [[nodiscard]] std::vector<std::string> traces() const;

  std::string pattern_;
  std::string own_folder_;
  std::vector<std::string> before_;  // traces that were there already
};

}  // namespace spillway::tools
