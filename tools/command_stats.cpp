// spillway stats: one trace as a page, several as a line each with totals. What can be shown is shown, also of a cut or
// damaged trace; a file that is no trace is named, and the others go on.
#include <CLI/CLI.hpp>

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
    app.add_option("--top", top_, "Functions to list, by launches")
        ->capture_default_str()
        ->check(CLI::Range(0, 1'000'000));
  }

  int run() override {
    const TraceList list = list_traces(arguments_);
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
  bool json_ = false;
  int top_ = 10;
};

}  // namespace

std::unique_ptr<Command> make_stats_command() { return std::make_unique<StatsCommand>(); }

}  // namespace spillway::tools
