// spillway view: a trace as one HTML page that needs nothing else, in a file or on loopback.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tools/command.hpp"
#include "tools/output_file.hpp"
#include "tools/regular_file.hpp"
#include "tools/trace_source.hpp"
#include "tools/view/page.hpp"
#include "tools/view/serve.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

bool is_page_of_ours(const std::string& path) {
  std::string why;
  return read_regular(path, view::kPageMark.size(), why) == view::kPageMark;
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
    app.add_option("trace", trace_, "Trace file (.swt), or a folder with one")->required();
    auto* output =
        app.add_option("-o,--output", output_, "Page to write (default: the trace's name with .html, in this folder)");
    auto* serve = app.add_flag("--serve", serve_, "Serve the page on 127.0.0.1 until interrupted; writes no file");
    serve->excludes(output);
    app.add_option("--port", port_, "Port for --serve; 0: any that is free")
        ->capture_default_str()
        ->check(CLI::Range(0, 65535))
        ->needs(serve);
    app.add_option("--open", open_, "Open the page in a browser, where there is a desktop: yes or no")
        ->capture_default_str()
        ->check(CLI::IsMember({"yes", "no"}));
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
    if (list.paths.size() > 1) {
      return complain(trace_ + ": holds " + std::to_string(list.paths.size()) + " traces, and a page shows one; name " +
                      list.paths.front() + ", for example");
    }
    const std::string& path = list.paths.front();
    view::ViewReading reading = view::view_trace(path);
    if (reading.problem) return complain(*reading.problem, kFailure);
    const std::string page = view::make_page(view::page_template(), reading.data);
    return serve_ ? serve_page(page) : write_page(page, path);
  }

 private:
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

  int write_page(const std::string& page, const std::string& trace) const {
    const std::string output = output_.empty() ? fs::path(trace).filename().string() + ".html" : output_;
    std::error_code ignored;
    if (output_.empty() && fs::exists(output, ignored) && !is_page_of_ours(output)) {
      return complain(output + ": exists, and is no page of spillway view; name another file with -o");
    }
    OutputFile file;
    std::optional<std::string> problem = file.open(output);
    if (!problem) {
      file.write(page);
      problem = file.finish();
    }
    if (problem)
      return complain(output + ": cannot be written: " + *problem + "; make room, or name another place", kFailure);
    print(output + "\n");
    if (open_ == "yes") open_in_browser(fs::absolute(output, ignored).string());
    return kSuccess;
  }

  std::string trace_;
  std::string output_;
  bool serve_ = false;
  int port_ = 0;
  std::string open_ = "yes";
};

}  // namespace

std::unique_ptr<Command> make_view_command() { return std::make_unique<ViewCommand>(); }

}  // namespace spillway::tools
