// spillway stats: one trace as a page, several as a line each with totals, or the tables that --by names. What can be
// shown is shown, also of a cut or damaged trace; a file that is no trace is named, and the others go on.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>

#include "tools/allocation_story.hpp"
#include "tools/command.hpp"
#include "tools/one_run.hpp"
#include "tools/option_checks.hpp"
#include "tools/stats_report.hpp"
#include "tools/stats_tables.hpp"
#include "tools/terminal.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {
namespace {

using Json = nlohmann::ordered_json;

// Names in a trace are bytes; what is no UTF-8 is replaced, not an exception.
std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

class StatsCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("trace", arguments_, "Trace files (.swt), or a folder of them")->required();
    app.add_option("--by", by_,
                   "Tables in place of the page, each trace by itself; several by commas or blanks")
        ->type_name("one of: class, rule, kernel, iteration, allocation")
        ->delimiter(',')
        ->allow_extra_args(false)  // what follows is a trace
        ->check(one_of(section_names()));
    explains_ = app.add_option("--explain", explain_,
                               "Tell the story of one allocation, named by its number or by an address in it (0x...)")
                    ->type_name("number or address");
    app.add_flag("--json", json_, "Print JSON: an object for one trace, else traces and totals");
    app.add_option("--top", top_, "Rows to list: kernels, allocations, iterations at either end")
        ->type_name("number")
        ->capture_default_str()
        ->check(whole_number_within(0, 1'000'000));
  }

  int run() override {
    take_sections_from_arguments();
    TraceList list = list_traces(arguments_);
    if (explains_->count() > 0) return explain(list);
    int code = kSuccess;
    leave_out_repeated(list.paths);
    for (const std::string& problem : list.problems) code = complain(problem, kFailure);
    for (const std::string& path : list.paths) {
      if (const auto problem = read(path)) code = complain(*problem, kFailure);
    }
    if (summaries_.empty()) return code;
    const auto apart = why_not_one_run(summaries_);
    const bool one = list.paths.size() == 1;
    const Terminal terminal = terminal_of_output();
    print(json_ ? dumped(json(one, !apart)) : page_for(terminal, text(one, !apart, terminal.width)));
    if (apart) return complain(*apart + "; name the traces of one run for totals", kFailure);
    if (const auto note = different_programs(summaries_)) complain(*note, kSuccess);
    return code;
  }

 private:
  // `--by kernel iteration TRACE` as well as `--by kernel,iteration TRACE`: the words that follow come as traces. A
  // file of that name is a trace.
  void take_sections_from_arguments() {
    if (by_.empty()) return;
    const auto is_section = [](const std::string& word) {
      const auto& names = section_names();
      std::error_code error;
      return std::find(names.begin(), names.end(), word) != names.end() && !std::filesystem::exists(word, error);
    };
    const auto first = std::stable_partition(arguments_.begin(), arguments_.end(),
                                             [&](const std::string& word) { return !is_section(word); });
    by_.insert(by_.end(), first, arguments_.end());
    arguments_.erase(first, arguments_.end());
  }

  // A trace counts once in the totals, however often it is named: by itself and in a folder, or by a link.
  static void leave_out_repeated(std::vector<std::string>& paths) {
    std::set<std::filesystem::path> known;
    std::erase_if(paths, [&known](const std::string& path) {
      std::error_code error;
      const std::filesystem::path file = std::filesystem::canonical(path, error);
      if (error || known.insert(file).second) return false;
      complain(path + ": is named more than once; it is counted once", kSuccess);
      return true;
    });
  }

  std::optional<std::string> read(const std::string& path) {
    RunFollower run(by_.empty() ? Follows::memory : Follows::memory_and_iterations);
    TraceSummarizer summarizer(run);
    RunTableMaker maker;
    const auto see = [&](const policy::trace::Record& record) {
      summarizer.add(record);
      if (!by_.empty()) maker.add(record, run);
    };
    return read_trace(path, see, [&](const policy::trace::TraceReader& reader) {
      summaries_.push_back(summarizer.finish(path, reader));
      if (!by_.empty()) tables_.push_back(maker.finish(run, reader.header()));
    });
  }

  template <class Visit>
  void each_section(const Visit& visit) const {
    const std::vector<std::string>& names = section_names();
    for (const std::string& name : by_) {
      visit(name, static_cast<Section>(std::find(names.begin(), names.end(), name) - names.begin()));
    }
  }

  [[nodiscard]] std::string text(bool one, bool one_run, std::size_t width) const {
    if (by_.empty() && one) return stats_page(summaries_.front(), top(), width);
    std::string out;
    if (by_.empty() || !one) out = stats_list(summaries_, one_run ? WithTotals::yes : WithTotals::no, width);
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      out += (out.empty() ? "" : "\n") + stats_opening(summaries_[i]);
      each_section([&](const std::string& /*name*/, Section section) {
        out += "\n" + section_text(tables_[i], section, top(), width);
      });
      if (const std::string outside = outside_text(tables_[i], summaries_[i]); !outside.empty()) out += "\n" + outside;
    }
    return out;
  }

  [[nodiscard]] Json json(bool one, bool one_run) const {
    Json traces = Json::array();
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      traces.push_back(stats_json(summaries_[i], top()));
      each_section([&](const std::string& name, Section section) {
        traces.back()["by_" + name] = section_json(tables_[i], section, top());
      });
    }
    if (one) return traces.front();
    Json all = {{"traces", traces}, {"one_run", one_run}};
    if (!one_run) return all;
    policy::Bytes in, out;
    std::uint64_t launches = 0;
    for (const TraceSummary& summary : summaries_) {
      in += summary.moved_in();
      out += summary.moved_out();
      launches += summary.launches;
    }
    all["totals"] = {
        {"traces", summaries_.size()}, {"launches", launches}, {"moved_in", in.count()}, {"moved_out", out.count()}};
    return all;
  }

  int explain(const TraceList& list) const {
    const auto name = parse_allocation_name(explain_);
    if (!name) {
      return complain("--explain: " + policy::quoted(explain_) +
                      " is no allocation; write its number, or an address in it such as 0x7f3a00000000");
    }
    if (!by_.empty()) {
      return complain(
          "--explain tells the story of one allocation, and --by makes tables of all; leave one of them out");
    }
    if (!list.problems.empty()) return complain(list.problems.front(), kFailure);
    if (list.paths.size() != 1) {
      return complain("--explain: " + std::to_string(list.paths.size()) +
                      " traces are given; numbers and addresses are one process's own: name one of them");
    }
    const StoryReading reading = read_story(list.paths.front(), *name);
    if (reading.problem) return complain(*reading.problem, kFailure);
    constexpr std::size_t kLeastLines = 40;
    constexpr std::size_t kTimeColumns = 16;
    if (json_) return print(dumped(story_json(reading.story))), kSuccess;
    const Terminal terminal = terminal_of_output();
    const std::string story = story_text(reading.story, std::max(top(), kLeastLines), terminal.width);
    print(prose_for(terminal, story, kTimeColumns));
    return kSuccess;
  }

  [[nodiscard]] std::size_t top() const { return static_cast<std::size_t>(top_); }

  std::vector<std::string> arguments_;
  std::vector<std::string> by_;
  std::string explain_;
  const CLI::Option* explains_ = nullptr;
  bool json_ = false;
  int top_ = 10;
  std::vector<TraceSummary> summaries_;
  std::vector<RunTables> tables_;  // of each, with --by
};

}  // namespace

std::unique_ptr<Command> make_stats_command() { return std::make_unique<StatsCommand>(); }

}  // namespace spillway::tools
