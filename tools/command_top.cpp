// spillway top: a run as it goes on, from the page that a process under Spillway keeps of itself in shared memory, or
// from a trace, as far as it is written. Nothing is asked of the program.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <thread>

#include "tools/command.hpp"
#include "tools/option_checks.hpp"
#include "tools/run_page_reader.hpp"
#include "tools/running_process.hpp"
#include "tools/top_view.hpp"
#include "tools/trace_source.hpp"
#include "tools/wall_clock.hpp"

namespace spillway::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void interrupt(int /*signal*/) { interrupted = 1; }

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

class TopCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option(
           "run", run_name_,
           "Number of a process under Spillway, or a trace file (.swt); a file whose name is a number is ./4242")
        ->required();
    app.add_flag(
        "--once", once_,
        "Print one frame, of what there is now, and end (implied where stdout is no terminal, but with --json)");
    app.add_option("--interval", interval_, "Seconds between frames, 0.05 to 3600")
        ->type_name("seconds")
        ->capture_default_str()
        ->check(number_within(0.05, 3600.0));
    app.add_option("--top", top_, "Allocations to list, 1000 at most; a process shows 64 at most")
        ->type_name("number")
        ->capture_default_str()
        ->check(whole_number_within(0, 1000));
    app.add_flag("--json", json_, "Print each frame as a line of JSON");
  }

  int run() override {
    if (::isatty(STDOUT_FILENO) == 0 && !json_) once_ = true;
    if (run_name_.empty()) return complain("the name of the run is empty; name a process, or a trace file");
    terminal_ = terminal_of_output();
    if (!once_) catch_interrupts();
    if (!names_process()) {
      if (const auto problem = one_trace(run_name_)) return complain(*problem, kFailure);
      return follow_trace(run_name_, run_name_);
    }
    const RunningProcessSearch search = find_running_process(std::stoull(run_name_));
    if (!search.process) return complain(search.problem + file_of_that_name(), kFailure);
    writer_ = search.process->pid;
    if (const std::uint64_t named = std::stoull(run_name_); writer_ != named) asked_for_ = named;
    if (search.process->shows == RunningShows::trace)
      return follow_trace(search.process->open_as, search.process->path);
    return follow_page(search.process->open_as);
  }

 private:
  // Digits only: a process, whatever files there are.
  [[nodiscard]] bool names_process() const {
    constexpr std::size_t kMostDigits = 10;
    return run_name_.find_first_not_of("0123456789") == std::string::npos && run_name_.size() <= kMostDigits;
  }
  [[nodiscard]] std::string file_of_that_name() const {
    struct stat status {};
    return ::stat(run_name_.c_str(), &status) == 0 ? "; the file of that name is ./" + run_name_ : std::string();
  }

  int follow_page(const std::string& path) {
    const std::string name = "process " + std::to_string(writer_);
    RunPageReader reader;
    if (const auto problem = reader.open(path)) return complain(name + ": " + *problem, kFailure);
    while (true) {
      const bool running = is_running(writer_);  // before: what it shows last is not missed
      const auto page = reader.read();
      if (!page && running) return complain(name + ": its page is not whole; try again", kFailure);
      if (!page) return complain(name + ": was killed while it wrote its page", kFailure);
      const TopFrame frame = frame_of(*page, running, top());
      show(frame);
      std::fflush(stdout);
      if (once_ || frame.ended || !running || std::ferror(stdout) != 0) return kSuccess;
      std::this_thread::sleep_for(std::chrono::duration<double>(interval_));
      if (interrupted != 0) return kSuccess;
    }
  }

  int follow_trace(const std::string& path, const std::string& shown) {
    open_as_ = path;
    TraceVisitor visitor;
    visitor.opened = [&](const policy::trace::TraceReader& reader) {
      reader_ = &reader;
      view_.begin(reader, shown);
      start_ = reader.header().start;
      if (writer_ == 0 && reader.header().host == this_host()) writer_ = reader.header().pid;
    };
    visitor.record = [this](const policy::trace::Record& record) {
      run_.add(record);
      view_.add(record, run_);
    };
    visitor.finished = [this](const policy::trace::TraceReader& reader) {
      reader_ = nullptr;
      const bool torn = reader.report().cut_at && (writer_ == 0 || !is_running(writer_));
      if (reader.whole() || torn || reader.report().damaged_frames > 0 || reader.report().header_damaged)
        view_.set_completeness(completeness(reader));
      why_no_end_ = why_no_end(reader);
      if (!reader.end()) return;
      end_reason_ = reader.end()->reason;
      view_.end(*reader.end());
    };
    if (!once_) visitor.wait_for_more = [this] { return wait(); };
    if (const auto problem = read_trace(path, visitor)) {
      struct stat status {};
      const bool there = ::stat(path.c_str(), &status) == 0;
      return complain(*problem + (there ? "" : "; a process is named by its number"), kFailure);
    }
    view_.set_state(last_state());
    note_last_event();
    show(view_.frame(run_, top()));
    return kSuccess;
  }

  // Without SA_RESTART a sleep ends at once, and the last frame stays on the screen.
  static void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = interrupt;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
  }

  // At the end of what there is: shows it, and waits for more. False once there will be none.
  bool wait() {
    if (interrupted != 0 || (reader_ != nullptr && reader_->end())) return false;
    if (gone_) return false;
    if (writer_ != 0 && !is_running(writer_)) {
      gone_ = true;  // what the program wrote before it ended is read once more
      return true;
    }
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> every(interval_);
    if (reader_ != nullptr && now - last_shown_ >= every) {
      last_shown_ = now;
      note_last_event();
      show(view_.frame(run_, top()));
      std::fflush(stdout);
      if (std::ferror(stdout) != 0) return false;
    }
    std::this_thread::sleep_for(std::min(every, std::chrono::duration<double>(0.2)));
    return interrupted == 0;
  }

  [[nodiscard]] std::string last_state() const {
    if (!end_reason_.empty()) return "ended by " + end_reason_;
    if (writer_ != 0 && is_running(writer_)) return "running";
    return writer_ != 0 ? "no end in the trace (" + why_no_end_ + ")" : "still running, or " + why_no_end_;
  }

  // What a running process does is in its file within a second. A file that nobody is known to write may be a copy: the
  // trace itself says when it began, and how long after that its last event was.
  void note_last_event() {
    struct stat status {};
    if (!end_reason_.empty()) return view_.set_quiet(0, {});
    const std::int64_t now = std::time(nullptr);
    if (writer_ != 0 && is_running(writer_) && ::stat(open_as_.c_str(), &status) == 0)
      return view_.set_quiet(std::max<std::int64_t>(now - status.st_mtime, 0), {});
    const auto began = seconds_of(start_);
    if (!began) return view_.set_quiet(0, {});
    const std::int64_t last = *began + run_.time().count() / 1'000'000'000;
    view_.set_quiet(std::max<std::int64_t>(now - last, 0), date_of(last));
  }

  void show(TopFrame frame) const {
    frame.asked_for = asked_for_;
    if (json_)
      return print(json_of(frame).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    const bool clear = terminal_.width > 0 && !once_;
    print((clear ? "\033[H\033[J" : "") + text_of(frame, terminal_));
  }
  [[nodiscard]] std::size_t top() const { return static_cast<std::size_t>(top_); }

  std::string run_name_;
  std::string open_as_;  // the trace that is read
  bool once_ = false;
  bool json_ = false;
  double interval_ = 1;
  int top_ = 10;

  RunFollower run_;
  TopView view_;
  Terminal terminal_;
  const policy::trace::TraceReader* reader_ = nullptr;  // while it reads
  std::string end_reason_;
  std::string why_no_end_;
  std::string start_;            // of the run, as the trace says
  std::uint64_t writer_ = 0;     // 0: nobody of this machine that we know of
  std::uint64_t asked_for_ = 0;  // the process named, where a child of it is shown
  bool gone_ = false;
  std::chrono::steady_clock::time_point last_shown_;
};

}  // namespace

std::unique_ptr<Command> make_top_command() { return std::make_unique<TopCommand>(); }

}  // namespace spillway::tools
