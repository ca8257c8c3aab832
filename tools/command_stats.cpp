// spillway stats: one trace as a page, several as a line each with totals. What can be shown is shown, also of a cut or
// damaged trace; a file that is no trace is named, and the others go on.
#include <CLI/CLI.hpp>

#include "tools/allocation_story.hpp"
#include "tools/command.hpp"
#include "tools/stats_report.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {
namespace {

class StatsCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("trace", arguments_, "Trace files (.swt), or a folder of them")->required();
    app.add_flag("--json", json_, "Print JSON: an object for one trace, else traces and totals");
    app.add_option("--explain", explain_,
                   "Tell the story of one allocation, named by its number or by an address in it (0x...)");
    app.add_option("--top", top_, "Rows to list: functions by launches, lines of --explain")
        ->capture_default_str()
        ->check(CLI::Range(0, 1'000'000));
  }

  int run() override {
    const TraceList list = list_traces(arguments_);
    if (!explain_.empty()) return explain(list);
    int code = kSuccess;
    for (const std::string& problem : list.problems) code = complain(problem, kFailure);
    std::vector<TraceSummary> summaries;
    for (const std::string& path : list.paths) {
      SummaryReading reading = summarize(path);
      if (reading.problem) {
        code = complain(*reading.problem, kFailure);
      } else {
        summaries.push_back(std::move(reading.summary));
      }
    }
    if (!summaries.empty()) show(summaries, list.paths.size() == 1);
    return code;
  }

 private:
  int explain(const TraceList& list) const {
    const auto name = parse_allocation_name(explain_);
    if (!name) {
      return complain("--explain: " + policy::quoted(explain_) +
                      " is no allocation; write its number, or an address in it such as 0x7f3a00000000");
    }
    if (!list.problems.empty()) return complain(list.problems.front(), kFailure);
    if (list.paths.size() != 1) {
      return complain("--explain: " + std::to_string(list.paths.size()) +
                      " traces are given; numbers and addresses are one process's own: name one of them");
    }
    const StoryReading reading = read_story(list.paths.front(), *name);
    if (reading.problem) return complain(*reading.problem, kFailure);
    const std::size_t most = std::max<std::size_t>(static_cast<std::size_t>(top_), 40);
    print(json_ ? story_json(reading.story).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                : story_text(reading.story, most));
    return kSuccess;
  }

  void show(const std::vector<TraceSummary>& summaries, bool one) const {
    const auto top = static_cast<std::size_t>(top_);
    if (!json_) return print(one ? stats_page(summaries.front(), top) : stats_list(summaries));
    nlohmann::ordered_json json;
    if (one) {
      json = stats_json(summaries.front(), top);
    } else {
      policy::Bytes in, out;
      std::uint64_t launches = 0;
      json["traces"] = nlohmann::ordered_json::array();
      for (const TraceSummary& summary : summaries) {
        json["traces"].push_back(stats_json(summary, top));
        in += summary.moved_in();
        out += summary.moved_out();
        launches += summary.launches;
      }
      json["totals"] = {
          {"traces", summaries.size()}, {"launches", launches}, {"moved_in", in.count()}, {"moved_out", out.count()}};
    }
    // Names in a trace are bytes; what is no UTF-8 is replaced, not an exception.
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }

  std::vector<std::string> arguments_;
  std::string explain_;
  bool json_ = false;
  int top_ = 10;
};

}  // namespace

std::unique_ptr<Command> make_stats_command() { return std::make_unique<StatsCommand>(); }

}  // namespace spillway::tools
