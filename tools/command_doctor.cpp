// spillway doctor: a line for each thing that Spillway needs. Exit code 0 if programs can be served here, 1 if not.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/command.hpp"
#include "tools/machine.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {
namespace {

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

class DoctorCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_flag("--json", json_, "Print JSON: an object with `servable` and the findings");
  }

  int run() override {
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
    print(out);
  }

  static void print_json(const std::vector<Finding>& findings, bool servable) {
    nlohmann::ordered_json json = {{"servable", servable}, {"findings", nlohmann::ordered_json::array()}};
    for (const Finding& finding : findings) {
      json["findings"].push_back({{"check", finding.check},
                                  {"verdict", verdict_name(finding.verdict)},
                                  {"text", finding.text},
                                  {"remedy", finding.remedy}});
    }
    print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }

  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace spillway::tools
