// spillway view: a trace as one HTML page that needs nothing else, in a file or on loopback.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.hpp"
#include "tools/one_run.hpp"
#include "tools/option_checks.hpp"
#include "tools/output_file.hpp"
#include "tools/run_name.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_source.hpp"
#include "tools/view/page.hpp"
#include "tools/view/serve.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

// Of a file or a folder, which may be given as "." or with a slash at its end.
std::string page_name(const std::string& trace) {
  std::error_code ignored;
  fs::path whole = fs::absolute(trace, ignored).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.has_filename() ? whole.filename().string() + ".html" : "traces.html";
}

// A desktop's browser, if there is a desktop. Its output is not ours.
void open_in_browser(const std::string& target) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return;
  std::string name = "xdg-open";
  std::string argument = target;
  char* arguments[] = {name.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  if (::posix_spawnp(&child, name.c_str(), &actions, nullptr, arguments, environ) == 0) ::waitpid(child, nullptr, 0);
  posix_spawn_file_actions_destroy(&actions);
}

class ViewCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("trace", trace_, "Trace file (.swt), or a folder of a run's traces: one page, with a switch")
        ->required();
    auto* output = app.add_option("-o,--output", output_,
                                  "Page to write, also in place of one of the same run (default: the trace's name with "
                                  ".html, in this folder)")
                       ->type_name("PAGE")
                       ->check(names_file());
    auto* serve = app.add_flag("--serve", serve_, "Serve the page on 127.0.0.1 until interrupted; writes no file");
    serve->excludes(output);
    app.add_flag("--replace", replace_, "Also in place of a page of another run")->excludes(serve);
    app.add_option("--port", port_, "Port for --serve; 0: any that is free")
        ->capture_default_str()
        ->type_name("number")
        ->check(whole_number_within(0, 65535))
        ->needs(serve);
    app.add_option("--open", open_, "Open the page in a browser, where there is a desktop")
        ->type_name("one of: yes, no")
        ->capture_default_str()
        ->check(one_of({"yes", "no"}));
  }

  int run() override {
    if (view::page_template().empty()) {
      return complain(
          "this spillway was built without the viewer; install Node.js (Debian packages nodejs and npm), configure "
          "again and build",
          kFailure);
    }
    const TraceList list = list_traces({trace_});
    if (!list.problems.empty()) return complain(list.problems.front(), kFailure);
    if (list.paths.size() > kMostTraces) {
      return complain(trace_ + ": holds " + std::to_string(list.paths.size()) + " traces, and a page shows " +
                      std::to_string(kMostTraces) + " at most; name " + list.paths.front() + ", for example");
    }
    const bool one = list.paths.size() == 1;
    if (!serve_) {
      if (output_.empty()) output_ = page_name(one ? list.paths.front() : trace_);
      if (const auto problem = replaces_input(output_, list.paths)) return complain(*problem);
      if (const auto problem = replaces_foreign(output_, {view::kPageMark}, "is no page of spillway view"))
        return complain(*problem);
    }
    std::vector<view::ViewReading> readings;
    bool whole = true;
    for (const std::string& path : list.paths) {
      readings.push_back(view::view_trace(path));
      if (!readings.back().problem) {
        const std::string& state = readings.back().summary.completeness;
        if (const std::string line = as_far_as_it_goes(path, "shown", state); !line.empty()) {
          complain(line, kSuccess);
          whole = false;
        }
        continue;
      }
      // What can be shown is shown.
      if (list.paths.size() == 1) return complain(*readings.back().problem, kFailure);
      complain(*readings.back().problem + "; left out");
      readings.pop_back();
    }
    if (readings.empty()) return complain(trace_ + ": none of its traces can be read", kFailure);
    if (const auto problem = replaces_page_of_others(readings)) return complain(*problem);
    const bool apart = said_to_be_apart(readings);
    const std::string page = make_page(readings);
    std::string what = one ? "the whole trace" : counted(readings.size(), "trace", "traces");
    if (!whole) what = one ? "the trace as far as it could be read" : what + ", some only as far as they could be read";
    const int shown = serve_ ? serve_page(page) : write_page(page, what);
    return apart || readings.size() < list.paths.size() ? kFailure : shown;
  }

 private:
  static constexpr std::size_t kMostTraces = 64;

  // A page may be made anew; what it shows of other runs would be gone.
  [[nodiscard]] std::optional<std::string> replaces_page_of_others(
      const std::vector<view::ViewReading>& readings) const {
    if (serve_ || replace_) return std::nullopt;
    std::vector<std::string> runs;
    for (const view::ViewReading& reading : readings) {
      const policy::trace::TraceHeader& header = reading.summary.header;
      runs.push_back(run_name(header.host, header.pid, header.start));
    }
    return replaces_other_run(output_, view::runs_of_page(output_), runs);
  }

  // As stats: what can be shown is shown, and that it is not one run is the answer.
  static bool said_to_be_apart(const std::vector<view::ViewReading>& readings) {
    std::vector<TraceSummary> summaries;
    for (const view::ViewReading& reading : readings) summaries.push_back(reading.summary);
    const auto apart = why_not_one_run(summaries);
    if (apart) complain(*apart + "; name one of them, or a folder that holds the traces of one run");
    return apart.has_value();
  }

  // By rank, and by name where there is none.
  static std::string make_page(std::vector<view::ViewReading>& readings) {
    const auto rank = [](const view::ViewReading& reading) {
      const std::string& text = reading.summary.header.rank;
      const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
      return number ? std::strtoul(text.c_str(), nullptr, 10) : ~0UL;
    };
    std::stable_sort(readings.begin(), readings.end(),
                     [&rank](const auto& a, const auto& b) { return rank(a) < rank(b); });
    std::vector<view::ViewData> traces;
    for (view::ViewReading& reading : readings) traces.push_back(std::move(reading.data));
    return view::make_page(view::page_template(), traces);
  }

  int serve_page(const std::string& page) const {
    view::ServeRequest request;
    request.port = static_cast<std::uint16_t>(port_);
    request.ready = [this](const std::string& url) {
      print(url + "\n");
      std::fflush(stdout);
      if (open_ == "yes") open_in_browser(url);
    };
    if (const auto problem = view::serve(page, request)) return complain(*problem, kFailure);
    return kSuccess;
  }

  int write_page(const std::string& page, const std::string& what) const {
    const std::string replaced = in_place_of(output_);
    OutputFile file;
    std::optional<std::string> problem = file.open(output_);
    if (!problem) {
      file.write(page);
      problem = file.finish();
    }
    if (problem) return complain(cannot_be_written(output_, *problem), kFailure);
    print(written_line(output_, what + replaced));
    std::error_code ignored;
    if (open_ == "yes") open_in_browser(fs::absolute(output_, ignored).string());
    return kSuccess;
  }

  std::string trace_;
  std::string output_;
  bool replace_ = false;  // pages of other runs, too
  bool serve_ = false;
  int port_ = 0;
  std::string open_ = "yes";
};

}  // namespace

std::unique_ptr<Command> make_view_command() { return std::make_unique<ViewCommand>(); }

}  // namespace spillway::tools
