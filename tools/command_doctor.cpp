// spillway doctor: a line for each thing that Spillway needs; with a program, how that allocates and what to use for
// it. Exit code 0 if programs, or this program, can be served here, 1 if not.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "policy/settings.hpp"
#include "tools/command.hpp"
#include "tools/launch.hpp"
#include "tools/machine.hpp"
#include "tools/option_checks.hpp"
#include "tools/preload.hpp"
#include "tools/program_check.hpp"
#include "tools/program_report.hpp"
#include "tools/terminal.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warning:
      return "warning";
    default:
      return "problem";
  }
}

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

// A folder for the traces of one run, gone with it.
class TraceFolder {
 public:
  TraceFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/spillway-doctor-XXXXXX";
    made_ = ::mkdtemp(path_.data()) != nullptr;
  }
  ~TraceFolder() {
    std::error_code ignored;
    if (made_) fs::remove_all(path_, ignored);
  }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

std::string ending_text(const LimitedEnding& limited, int seconds) {
  if (limited.stopped) return "stopped after " + std::to_string(seconds) + " s (--time-limit)";
  const int status = limited.ending.status;
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    return "ended by signal " + (name != nullptr ? "SIG" + std::string(name) : std::to_string(WTERMSIG(status)));
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

// Whether it ran as one that is served should: to its end, or to the limit.
bool ran_well(const LimitedEnding& limited) {
  return limited.stopped || (WIFEXITED(limited.ending.status) && WEXITSTATUS(limited.ending.status) == 0);
}

constexpr const char* kNothingSeen =
    "No CUDA call was seen: the program made none, or what made them was not intercepted (a child started without "
    "LD_PRELOAD, a setuid or static program).";

constexpr const char* kEndedUnseen = "The time limit ended it before its first CUDA call; give a longer --time-limit.";

constexpr const char* kEndedBeforeLarge =
    "Nothing of what was seen can spill, but the time limit ended it: give a longer --time-limit if it asks for large "
    "memory later.";

constexpr const char* kNoDriver =
    "No CUDA call was seen, and no CUDA driver (libcuda.so.1) is found here, so the program saw no GPU; --simulated "
    "runs "
    "it on the simulated device, and spillway doctor without a program says more.";

constexpr const char* kNotOnSimulated =
    "The program did not run well on the simulated device: see what it printed. Each of its kernels needs a host twin "
    "there (tools/simulated_device/README.md).";

class DoctorCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("--time-limit", seconds_, "With a program: seconds after which it is ended by SIGTERM")
        ->type_name("seconds")
        ->check(whole_number_within(1, 3600))
        ->capture_default_str();
    app.add_flag("--simulated", simulated_, "With a program: run it on the simulated device instead of a GPU");
    app.add_flag("--json", json_, "Print JSON: an object with `servable`, and the findings or the report");
  }

  void set_program(std::vector<std::string> program) override { program_ = std::move(program); }

  int run() override {
    if (!program_.empty()) return examine_program();
    if (simulated_)
      return complain("--simulated: no program is given; give a program: spillway doctor --simulated -- program");
    const std::vector<Finding> findings = examine_machine();
    const bool servable = std::none_of(findings.begin(), findings.end(),
                                       [](const Finding& finding) { return finding.verdict == Verdict::problem; });
    json_ ? print_json(findings, servable) : print_lines(findings, servable);
    return servable ? kSuccess : kFailure;
  }

 private:
  static void print_lines(const std::vector<Finding>& findings, bool servable) {
    std::string out;
    for (const Finding& finding : findings) {
      std::string verdict = verdict_name(finding.verdict);
      verdict.resize(9, ' ');
      out += verdict + finding.check + ": " + harmless(finding.text) + "\n";
      if (!finding.remedy.empty()) out += "         remedy: " + harmless(finding.remedy) + "\n";
    }
    out += servable ? "This machine can be served.\n" : "This machine cannot be served: see the problems above.\n";
    constexpr std::size_t kAfterVerdict = 9;
    print(prose_for(terminal_of_output(), out, kAfterVerdict));
  }

  static void print_json(const std::vector<Finding>& findings, bool servable) {
    Json json = {{"servable", servable}, {"findings", Json::array()}};
    for (const Finding& finding : findings) {
      json["findings"].push_back({{"check", finding.check},
                                  {"verdict", verdict_name(finding.verdict)},
                                  {"text", finding.text},
                                  {"remedy", finding.remedy}});
    }
    print(dumped(json));
  }

  int examine_program() {
    const char* search = std::getenv("PATH");
    const ProgramCheck check = check_program(program_.front(), search == nullptr ? "" : search);
    std::optional<std::string> problem = check.problem;
    if (!problem && simulated_) problem = simulated_device_problem(check.path);
    if (!problem) problem = preload_by_environment(simulated_ ? RunsOn::simulated_device : RunsOn::gpu);
    if (problem) return complain(*problem);
    const TraceFolder folder;
    if (!folder.made()) {
      return complain(
          "cannot make " + folder.path() + " for the run's trace (" + std::strerror(errno) + "); set TMPDIR", kFailure);
    }
    // It runs as it would without us: what the user has set for other runs is not for this one.
    for (const policy::SettingRow& row : policy::setting_table()) ::unsetenv(row.environment_name().c_str());
    ::unsetenv(std::string(policy::kPolicyFileEnvironmentName).c_str());
    ::setenv("SPILLWAY_MODE", "off", 1);
    ::setenv("SPILLWAY_LOG_LEVEL", "warning", 1);
    ::setenv("SPILLWAY_TRACE_PATH", (folder.path() + "/%p.swt").c_str(), 1);
    const LimitedEnding limited = run_limited(check.path, program_, std::chrono::seconds(seconds_));
    if (limited.ending.error != 0) {
      return complain("cannot run " + check.path + ": " + std::strerror(limited.ending.error) +
                      "; check that it can be started without spillway");
    }
    ProgramUse use;
    use.stopped = limited.stopped;
    for (const std::string& path : list_traces({folder.path()}).paths) add_trace(use, path);
    return report(limited, use);
  }

  [[nodiscard]] const char* nothing_seen(const LimitedEnding& limited) const {
    if (!simulated_ && !driver_is_there()) return kNoDriver;
    return limited.stopped ? kEndedUnseen : kNothingSeen;
  }

  int report(const LimitedEnding& limited, const ProgramUse& use) const {
    const bool seen = use.processes > 0;
    const bool spills =
        std::any_of(use.devices.begin(), use.devices.end(), [](const auto& entry) { return entry.second.spills(); });
    // It ended for want of memory, maybe: that is what spilling is for.
    const bool rescued =
        std::any_of(use.devices.begin(), use.devices.end(), [](const auto& entry) { return entry.second.rescued(); });
    const bool servable = seen && spills && (rescued || ran_well(limited));
    const std::string verdict =
        !seen     ? nothing_seen(limited)
        : rescued ? "It ran out of device memory where Spillway would have spilled: this program "
                    "can be served. What it does with more memory was not seen."
        : !ran_well(limited)
            ? (simulated_ ? kNotOnSimulated : "The program did not run well: check that it does without spillway.")
        : !spills ? (limited.stopped ? kEndedBeforeLarge : "Nothing of what was seen can spill.")
                  : "This program can be served.";
    const std::string ended = ending_text(limited, seconds_);
    for (const std::string& problem : use.problems) complain(problem, kFailure);
    if (json_) {
      Json json = {{"servable", servable}, {"verdict", verdict}, {"ended", ended}, {"stopped", limited.stopped}};
      json.update(report_json(use));
      print(dumped(json));
    } else {
      std::string command;
      for (const std::string& word : program_) command += (command.empty() ? "" : " ") + word;
      const Terminal terminal = terminal_of_output();
      print(page_for(terminal, harmless(command) + ": " + ended + "\n" +
                                   (seen ? "\n" + report_text(use, terminal.width) + "\n" : "") + verdict + "\n"));
    }
    return servable ? kSuccess : kFailure;
  }

  std::vector<std::string> program_;
  int seconds_ = 20;
  bool simulated_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace spillway::tools
