// spillway top: a run as it goes on. It reads the trace that the program writes, which is never more than a second
// behind; nothing is asked of the program.
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
#include "tools/running_trace.hpp"
#include "tools/top_view.hpp"
#include "tools/trace_source.hpp"

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
    app.add_option("run", run_name_, "Process that was started with --trace, or a trace file (.swt)")->required();
    app.add_flag(
        "--once", once_,
        "Print one frame, of what there is now, and end (implied where stdout is no terminal, but with --json)");
    app.add_option("--interval", interval_, "Seconds between frames")
        ->capture_default_str()
        ->check(CLI::Range(0.05, 3600.0));
    app.add_option("--top", top_, "Allocations to list")->capture_default_str()->check(CLI::Range(0, 1000));
    app.add_flag("--json", json_, "Print each frame as a line of JSON");
  }

  int run() override {
    if (::isatty(STDOUT_FILENO) == 0 && !json_) once_ = true;
    if (run_name_.empty()) return complain("the name of the run is empty; name a process, or a trace file");
    std::string path = run_name_;
    std::string shown = run_name_;
    if (run_name_.find_first_not_of("0123456789") == std::string::npos && run_name_.size() < 11) {
      const RunningTraceSearch search = find_running_trace(std::stoull(run_name_));
      if (!search.trace) return complain(search.problem, kFailure);
      path = search.trace->open_as;
      shown = search.trace->path;
      writer_ = search.trace->pid;
    }
    open_as_ = path;
    terminal_ = terminal_of_output();
    TraceVisitor visitor;
    visitor.opened = [&](const policy::trace::TraceReader& reader) {
      reader_ = &reader;
      view_.begin(reader.header(), shown);
      if (writer_ == 0 && reader.header().host == this_host()) writer_ = reader.header().pid;
    };
    visitor.record = [this](const policy::trace::Record& record) {
      run_.add(record);
      view_.add(record, run_);
    };
    visitor.finished = [this](const policy::trace::TraceReader& reader) {
      reader_ = nullptr;
      if (!reader.end()) return;
      end_reason_ = reader.end()->reason;
      view_.end(*reader.end());
    };
    if (!once_) {
      catch_interrupts();
      visitor.wait_for_more = [this] { return wait(); };
    }
    if (const auto problem = read_trace(path, visitor)) return complain(*problem, kFailure);
    view_.set_state(last_state());
    view_.set_quiet(since_last_event());
    show();
    return kSuccess;
  }

 private:
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
      view_.set_quiet(since_last_event());
      show();
      std::fflush(stdout);
      if (std::ferror(stdout) != 0) return false;
    }
    std::this_thread::sleep_for(std::min(every, std::chrono::duration<double>(0.2)));
    return interrupted == 0;
  }

  [[nodiscard]] std::string last_state() const {
    if (!end_reason_.empty()) return "ended by " + end_reason_;
    if (writer_ != 0) return is_running(writer_) ? "running" : "killed";
    return "still running, or killed";
  }

  // In seconds. What happens is in the file within one.
  [[nodiscard]] std::int64_t since_last_event() const {
    struct stat status {};
    if (!end_reason_.empty() || ::stat(open_as_.c_str(), &status) != 0) return 0;
    return std::max<std::int64_t>(std::time(nullptr) - status.st_mtime, 0);
  }

  void show() const {
    if (json_) {
      return print(view_.json(run_, top()).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                   "\n");
    }
    const bool clear = terminal_.width > 0 && !once_;
    print((clear ? "\033[H\033[J" : "") + view_.text(run_, terminal_, top()));
  }
  [[nodiscard]] std::size_t top() const { return static_cast<std::size_t>(top_); }

  std::string run_name_;
  std::string open_as_;  // the file that is read
  bool once_ = false;
  bool json_ = false;
  double interval_ = 1;
  int top_ = 10;

  RunFollower run_;
  TopView view_;
  Terminal terminal_;
  const policy::trace::TraceReader* reader_ = nullptr;  // while it reads
  std::string end_reason_;
  std::uint64_t writer_ = 0;  // 0: nobody of this machine that we know of
  bool gone_ = false;
  std::chrono::steady_clock::time_point last_shown_;
};

}  // namespace

std::unique_ptr<Command> make_top_command() { return std::make_unique<TopCommand>(); }

}  // namespace spillway::tools
