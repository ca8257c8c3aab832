// spillway check: every mistake in a policy file, what its rules would match in a trace, and the reference page.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>

#include "policy/policy_reference.hpp"
#include "tools/check.hpp"
#include "tools/command.hpp"
#include "tools/option_checks.hpp"
#include "tools/regular_file.hpp"
#include "tools/terminal.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {
namespace {

// No more than a policy file may have, and one byte, so that the reader can say that it is too long.
std::optional<std::string> read_text(const std::string& path, std::string& problem) {
  std::string why;
  auto text = read_regular(path, policy::kLongestPolicyFile + 1, why);
  if (!text)
    problem = "cannot read the policy file " + policy::quoted(path) + ": " + why + "; give the path of a policy file";
  return text;
}

class CheckCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("policy", policy_path_, "Policy file (TOML)");
    app.add_option("--trace", trace_path_, "Trace file (.swt): say what each rule would match in it")
        ->type_name("TRACE")
        ->check(names_file());
    app.add_flag("--json", json_, "Print JSON");
    app.add_flag("--reference", reference_, "Print the reference page of all settings and rules (Markdown)");
  }

  int run() override {
    if (reference_) {
      print(policy::policy_reference());
      return kSuccess;
    }
    if (policy_path_.empty()) return complain("no policy file given; see `spillway check --help`");
    std::string problem;
    const std::optional<std::string> text = read_text(policy_path_, problem);
    if (!text) return complain(problem);
    const policy::PolicyFileReading reading = policy::read_policy_file(*text, policy_path_);
    std::optional<CheckedTrace> trace;
    int code = reading.ok() ? kSuccess : kUsageMistake;
    if (reading.ok() && !trace_path_.empty()) {
      if (const auto several = one_trace(trace_path_)) return complain(*several, kFailure);
      trace = read_coverage(reading.file.rules, code);
      if (!trace) return code;
    }
    if (json_) print(check_json(reading, policy_path_, trace));
    if (!reading.ok()) {
      const std::string mistakes = mistakes_text(reading, policy_path_);
      std::fwrite(mistakes.data(), 1, mistakes.size(), stderr);
    } else if (!json_) {
      const Terminal terminal = terminal_of_output();
      print(page_for(terminal, check_text(reading, policy_path_, trace, terminal.width)));
    }
    return code;
  }

 private:
  std::optional<CheckedTrace> read_coverage(const std::vector<policy::Rule>& rules, int& code) const {
    RuleCoverage coverage(rules);
    CheckedTrace trace;
    trace.path = trace_path_;
    const auto see = [&](const policy::trace::Record& record) {
      if (record.kind == policy::trace::RecordKind::event) coverage.see(record.event);
      if (record.kind == policy::trace::RecordKind::decision) coverage.see(record.decision);
    };
    const auto finished = [&](const policy::trace::TraceReader& reader) { trace.state = completeness(reader); };
    if (const auto problem = read_trace(trace_path_, see, finished)) {
      code = complain(*problem, kFailure);
      return std::nullopt;
    }
    trace.coverage = coverage.report();
    return trace;
  }

  std::string policy_path_;
  std::string trace_path_;
  bool json_ = false;
  bool reference_ = false;
};

}  // namespace

std::unique_ptr<Command> make_check_command() { return std::make_unique<CheckCommand>(); }

}  // namespace spillway::tools
