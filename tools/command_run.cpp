// spillway run: checks everything that can be checked before the program starts, sets its environment, becomes it.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "policy/policy_file.hpp"
#include "policy/settings.hpp"
#include "tools/command.hpp"
#include "tools/launch.hpp"
#include "tools/machine.hpp"
#include "tools/preload.hpp"
#include "tools/program_check.hpp"
#include "tools/regular_file.hpp"
#include "tools/run_summary.hpp"

extern char** environ;

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;
using policy::SettingProblem;
using policy::SettingRow;

const std::string kPolicyName(policy::kPolicyFileEnvironmentName);
constexpr std::string_view kTraceKey = "trace.path";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// The program may change its folder before the shim opens the file. A '%' in our folder is no placeholder.
std::string absolute_pattern(const std::string& pattern) {
  if (pattern.empty() || pattern.front() == '/') return pattern;
  std::error_code error;
  std::string folder;
  for (const char letter : fs::current_path(error).string())
    folder += letter == '%' ? std::string("%%") : std::string(1, letter);
  return error ? pattern : folder + "/" + pattern;
}

class RunCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("--policy", policy_file_, "Policy file to run under, checked first (SPILLWAY_POLICY)")
        ->type_name("FILE");
    values_.resize(policy::setting_table().size());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const SettingRow& row = policy::setting_table()[i];
      app.add_option(row.flag_name(), values_[i], row.help())->type_name(std::string(row.type))->group("Settings");
    }
    app.add_flag("--simulated", simulated_, "Run on the simulated device instead of a GPU");
    app.add_flag(
        "--summary", summary_,
        "Stay as its parent until the program has ended, and say on stderr what was seen and moved; without --trace a "
        "trace of at most 1GiB is kept in $TMPDIR until then");
  }

  void set_program(std::vector<std::string> program) override { program_ = std::move(program); }

  int run() override {
    if (program_.empty())
      return complain("no program given; write it after the flags: spillway run [flags] -- program");
    std::vector<std::string> problems;
    check_settings(problems);
    check_policy_file(problems);
    const ProgramCheck check = check_program(program_.front(), environment("PATH"));
    if (check.problem) problems.push_back(*check.problem);
    if (simulated_ && !check.problem) {
      if (const auto problem = simulated_device_problem(check.path)) problems.push_back(*problem);
    }
    if (const auto problem = preload_by_environment(simulated_ ? RunsOn::simulated_device : RunsOn::gpu)) {
      problems.push_back(*problem);
    }
    if (const auto problem = trace_place_problem(absolute_pattern(trace_pattern_))) problems.push_back(*problem);
    for (const std::string& problem : problems) complain(problem);
    if (!problems.empty()) return kUsageMistake;
    if (!simulated_ && !driver_is_there()) {
      complain(
          "no CUDA driver (libcuda.so.1) is found here, so the program will see no GPU; --simulated runs it on the "
          "simulated device, and spillway doctor says more",
          kSuccess);
    }
    return start(check.path);
  }

 private:
  // Flags and environment, all mistakes at once.
  void check_settings(std::vector<std::string>& problems) {
    policy::Settings settings;
    const auto keep = [&problems](const std::vector<SettingProblem>& list) {
      for (const SettingProblem& problem : list) problems.push_back(problem.sentence());
    };
    keep(policy::settings_from_environment(settings, [](const char* name) { return std::getenv(name); }));
    std::vector<std::string_view> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      names.emplace_back(*entry, static_cast<std::size_t>(std::strcspn(*entry, "=")));
    }
    keep(policy::unknown_environment_names(names));
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i]) continue;
      const SettingRow& row = policy::setting_table()[i];
      if (const auto problem = policy::set_setting(settings, row.key, *values_[i], row.flag_name())) {
        problems.push_back(problem->sentence());
      }
      const std::string value = row.key == kTraceKey ? absolute_pattern(*values_[i]) : *values_[i];
      ::setenv(row.environment_name().c_str(), value.c_str(), 1);
      if (row.key == kTraceKey) trace_pattern_ = value;
    }
    if (trace_pattern_.empty()) trace_pattern_ = settings.trace_path;
  }

  void check_policy_file(std::vector<std::string>& problems) {
    const std::string path = policy_file_.empty() ? environment(kPolicyName.c_str()) : policy_file_;
    if (path.empty()) return;
    std::error_code error;
    std::string why;
    const std::optional<std::string> text = read_regular(path, policy::kLongestPolicyFile + 1, why);
    if (!text) {
      problems.push_back((policy_file_.empty() ? kPolicyName : "--policy") + ": cannot read " + policy::quoted(path) +
                         " (" + why + "); give the path of a policy file");
      return;
    }
    const policy::PolicyFileReading reading = policy::read_policy_file(*text, path);
    for (const policy::PolicyMistake& mistake : reading.mistakes) problems.push_back(mistake.sentence());
    if (trace_pattern_.empty()) trace_pattern_ = reading.file.settings.trace_path;
    trace_is_bounded_ = reading.file.settings.trace_max_size != policy::Bytes();
    ::setenv(kPolicyName.c_str(), fs::absolute(path, error).c_str(), 1);
  }

  int start(const std::string& path) const {
    const auto cannot = [&path](int error) {
      return complain("cannot run " + path + ": " + std::strerror(error) +
                      "; check that it can be started without spillway");
    };
    if (!summary_) return cannot(replace_by(path, program_));
    // Nobody has asked for the trace that the summary is read from: it must not fill a disk.
    constexpr int kUnlessSet = 0;
    if (trace_pattern_.empty() && !trace_is_bounded_) ::setenv("SPILLWAY_TRACE_MAX_SIZE", "1GiB", kUnlessSet);
    Ending ending;
    {
      // Gone, with its folder, before we end as the program did: that may be by a signal.
      RunSummary summary(trace_pattern_);
      if (const auto problem = summary.prepare()) return complain(*problem, kFailure);
      ending = run_and_wait(path, program_);
      if (ending.error != 0) return cannot(ending.error);
      summary.report();
    }
    return end_like(ending);
  }

  std::vector<std::string> program_;
  std::vector<std::optional<std::string>> values_;  // of the flags, in the table's order
  std::string policy_file_;
  std::string trace_pattern_;
  bool trace_is_bounded_ = false;  // by the policy file
  bool simulated_ = false;
  bool summary_ = false;
};

}  // namespace

std::unique_ptr<Command> make_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace spillway::tools
