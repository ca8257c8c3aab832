// spillway export: a trace for other programs.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "tools/command.hpp"
#include "tools/exporter.hpp"
#include "tools/option_checks.hpp"
#include "tools/output_file.hpp"
#include "tools/run_name.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {

using policy::Nanoseconds;

std::optional<Nanoseconds> parse_time(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || !(value >= 0) || value > 1e9) return std::nullopt;
  const std::string unit(read.ptr, end);
  const double scale = unit.empty() || unit == "s" ? 1e9
                       : unit == "ms"              ? 1e6
                       : unit == "us"              ? 1e3
                       : unit == "ns"              ? 1
                                                   : 0;
  if (scale == 0) return std::nullopt;
  return Nanoseconds(static_cast<std::int64_t>(value * scale + 0.5));
}

bool parse_iterations(const std::string& text, ExportWindow& window) {
  const std::size_t dots = text.find("..");
  const auto number = [](std::string_view digits, std::uint64_t& value) {
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  };
  const std::string_view whole(text);
  if (!number(whole.substr(0, dots), window.first_iteration)) return false;
  window.last_iteration = window.first_iteration;
  if (dots == std::string::npos) return true;
  return number(whole.substr(dots + 2), window.last_iteration) && window.last_iteration >= window.first_iteration;
}

namespace {

class ExportCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("trace", trace_, "Trace file (.swt), or a folder with one in it")->required();
    app.add_option("--format", format_, "What to write")
        ->type_name("one of: perfetto, sqlite, csv")
        ->required()
        ->check(one_of({"perfetto", "sqlite", "csv"}));
    app.add_option("-o,--output", output_,
                   "File to write, also in place of an export of the same run; - for standard output (not with sqlite)")
        ->type_name("FILE")
        ->required()
        ->check(names_file());
    app.add_flag("--replace", replace_, "Also in place of an export of another run");
    from_given_ = app.add_option("--from", from_, "From this time of the trace on: 1.5s, 200ms")->type_name("time");
    to_given_ = app.add_option("--to", to_, "Up to this time")->type_name("time");
    iterations_given_ =
        app.add_option("--iteration", iterations_, "These iterations only: 7, or 7..9 (spillway stats --by iteration)")
            ->type_name("N[..M]");
  }

  int run() override {
    ExportWindow window;
    if (const auto mistake = read_window(window)) return complain(*mistake);
    if (const auto problem = one_trace(trace_)) return complain(*problem, kFailure);
    std::error_code error;
    if (std::filesystem::is_directory(output_, error)) return complain(output_ + ": is a folder; name a file to write");
    if (const auto problem = replaces_input(output_, {trace_})) return complain(*problem);
    if (format_ == "sqlite" && output_ == "-") {
      return complain("-o -: a database cannot be written to standard output; name a file");
    }
    const std::unique_ptr<Exporter> exporter = format_ == "csv"      ? make_csv_exporter()
                                               : format_ == "sqlite" ? make_sqlite_exporter()
                                                                     : make_perfetto_exporter();
    const std::string is_not = "was not written by spillway export --format " + format_;
    if (const auto problem = replaces_foreign(output_, exporter->mark(), is_not)) return complain(*problem);
    return write(trace_, window, *exporter);
  }

 private:
  std::optional<std::string> read_window(ExportWindow& window) const {
    constexpr const char* kRemedy = " is no time; write it as 1.5s, 200ms, 30us or 7ns";
    if (from_given_->count() > 0) {
      const auto time = parse_time(from_);
      if (!time) return "--from: " + policy::quoted(from_) + kRemedy;
      window.from = *time;
    }
    if (to_given_->count() > 0) {
      const auto time = parse_time(to_);
      if (!time) return "--to: " + policy::quoted(to_) + kRemedy;
      window.to = *time;
    }
    if (window.from > window.to) return "--from " + from_ + " is after --to " + to_ + "; nothing lies between";
    if (iterations_given_->count() > 0 && !parse_iterations(iterations_, window)) {
      return "--iteration: " + policy::quoted(iterations_) + " is no iteration; write 7, or 7..9";
    }
    return std::nullopt;
  }

  // Another piece, or the same anew, may take its place; that of another run may not.
  [[nodiscard]] std::optional<std::string> replaces_export_of_another(const policy::trace::TraceHeader& header,
                                                                      const Exporter& exporter) const {
    std::error_code error;
    if (replace_ || output_ == "-" || !std::filesystem::is_regular_file(output_, error)) return std::nullopt;
    return replaces_other_run(output_, {exporter.run_of(output_)}, {run_name(header.host, header.pid, header.start)});
  }

  int write(const std::string& path, const ExportWindow& window, Exporter& exporter) {
    RunFollower run;
    const std::string replaced = in_place_of(output_);
    std::optional<std::string> problem, other_run;
    bool opened = false;
    TraceVisitor visitor;
    visitor.opened = [&](const policy::trace::TraceReader& reader) {
      other_run = replaces_export_of_another(reader.header(), exporter);
      if (other_run) return;
      problem = exporter.open(output_);
      opened = !problem;
      if (opened) exporter.begin(reader.header());
    };
    bool holds_something = false;
    visitor.record = [&](const policy::trace::Record& record) {
      run.add(record);
      const bool inside = window.holds(record.time, run.iteration_of_record());
      holds_something = holds_something || inside;
      if (opened) exporter.add(record, run, inside);
    };
    visitor.wants_more = [&] { return !problem && !other_run && !(opened && exporter.failed()); };
    std::string state = "whole";
    visitor.finished = [&](const policy::trace::TraceReader& reader) {
      // Of a piece that holds nothing there is nothing to write: what is not finished leaves no file.
      if (opened && (holds_something || !is_piece() || exporter.failed())) problem = exporter.finish(reader, run);
      state = completeness(reader);
    };
    if (const auto unreadable = read_trace(path, visitor)) return complain(*unreadable, kFailure);
    if (other_run) return complain(*other_run);
    if (problem) return complain(cannot_be_written(output_, *problem), kFailure);
    if (opened && exporter.failed()) return kSuccess;  // the reader of standard output has gone away
    if (is_piece() && !holds_something) {
      return complain(nothing_inside(window, run) + (state == "whole" ? "" : " (" + path + ": " + state + ")"),
                      kFailure);
    }
    if (const std::string line = as_far_as_it_goes(path, "exported", state); !line.empty()) complain(line, kSuccess);
    print(written_line(output_, range_text(window, run, state == "whole") + replaced));
    return kSuccess;
  }

  [[nodiscard]] bool is_piece() const { return !from_.empty() || !to_.empty() || !iterations_.empty(); }

  std::string nothing_inside(const ExportWindow& window, const RunFollower& run) const {
    if (!iterations_.empty() && window.first_iteration > run.iteration()) {
      return "--iteration " + iterations_ + ": " +
             (run.iteration() == 0
                  ? "no iteration was found in this trace; leave --iteration out, or use --from and --to"
                  : "this trace has the iterations 1 to " + std::to_string(run.iteration()) +
                        " (0 is what comes before them); name some of these");
    }
    std::string flags;
    const auto add = [&flags](const char* flag, const std::string& value) {
      if (!value.empty()) flags += (flags.empty() ? "" : " ") + std::string(flag) + value;
    };
    add("--from ", from_);
    add("--to ", to_);
    add("--iteration ", iterations_);
    char end[32];
    std::snprintf(end, sizeof end, "%.3f s", static_cast<double>(run.time().count()) / 1e9);
    return flags + ": nothing happened there; this trace goes up to " + end +
           (iterations_.empty() ? "" : ", and `spillway stats --by iteration` says when each iteration was") +
           "; name a piece of it";
  }

  // Of what there is: "iterations 3 to 9", "iteration 3, of 0.2s to the end", "the whole trace".
  [[nodiscard]] std::string range_text(const ExportWindow& window, const RunFollower& run, bool whole) const {
    const std::string read = whole ? "" : " as far as it could be read";
    std::string text;
    if (!iterations_.empty()) {
      const std::uint64_t last = std::min(window.last_iteration, run.iteration());
      text = last == window.first_iteration ? "iteration " + grouped(last)
                                            : "iterations " + grouped(window.first_iteration) + " to " + grouped(last);
      if (from_.empty() && to_.empty()) return text + read;
      text += ", of ";
    }
    if (from_.empty() && to_.empty()) return whole ? "the whole trace" : "the trace" + read;
    return text + (from_.empty() ? "the beginning" : from_) + " to " + (to_.empty() ? "the end" : to_) + read;
  }

  std::string trace_;
  std::string format_;
  std::string output_;
  std::string from_;
  std::string to_;
  std::string iterations_;
  bool replace_ = false;  // exports of other runs, too
  const CLI::Option* from_given_ = nullptr;
  const CLI::Option* to_given_ = nullptr;
  const CLI::Option* iterations_given_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_export_command() { return std::make_unique<ExportCommand>(); }

}  // namespace spillway::tools
