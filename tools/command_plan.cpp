// spillway plan: from a trace and a budget to a policy file for the next run.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "policy/plan.hpp"
#include "tools/command.hpp"
#include "tools/expectation.hpp"
#include "tools/least_budget.hpp"
#include "tools/option_checks.hpp"
#include "tools/output_file.hpp"
#include "tools/replay.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {
namespace {

class PlanCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("trace", trace_, "Trace file (.swt)")->required();
    app.add_option("--device-budget", budget_, "Budget of the next run: a size such as 16GiB, or a share such as 80%")
        ->type_name("size or share")
        ->required();
    app.add_option("-o,--output", output_,
                   "Policy file to write (default: stdout); another plan that is there is kept beside it, as FILE.old")
        ->type_name("FILE")
        ->check(names_file());
    app.add_flag("--json", json_,
                 "Print what is expected of the next run as JSON; the policy file only goes to --output");
  }

  int run() override {
    policy::Settings asked;
    if (const auto problem = policy::set_setting(asked, "memory.device_budget", budget_, "--device-budget")) {
      return complain(problem->sentence());
    }
    if (const auto problem = output_problem()) return complain(*problem);
    TraceEvents trace;
    if (const auto problem = one_trace(trace_)) return complain(*problem, kFailure);
    if (const auto problem = read_events(trace_, trace)) return complain(*problem, kFailure);
    if (const std::string line = as_far_as_it_goes(trace_, "read", trace.state); !line.empty())
      complain(line, kSuccess);
    if (!trace.costs.problem.empty()) complain(trace.costs.problem, kSuccess);
    if (trace.launches == 0) return complain(no_launch(trace_, trace), kFailure);
    // The next run is as the recorded one, but for what the plan decides, and spills.
    policy::Settings settings = trace.settings;
    settings.mode = policy::ModeName::adaptive;
    settings.backing = policy::Settings().backing;
    settings.device_budget = asked.device_budget;
    ReplayRequest request;
    request.budget = settings.device_budget;
    request.keep = policy::ReplayOptions::Keep::decisions;
    std::vector<NamedReplay> replays;
    const std::vector<NamedPolicy> policies{{"adaptive", {settings, {}}}};
    if (const auto problem = try_replay(trace_, trace, policies, request, replays)) return complain(*problem, kFailure);
    // The recorded run's own policy as well: what it took tells how far the model can be trusted.
    std::vector<NamedReplay> recorded;
    ReplayRequest as_recorded;
    as_recorded.bounds = policy::ReplayOptions::WithBounds::no;
    if (const auto problem = try_replay(trace_, trace, {{"recorded", {trace.settings, {}}}}, as_recorded, recorded))
      return complain(*problem, kFailure);
    policy::ReplayResult& replayed = replays.front().result;
    // What the recorded run probed the next one will as well: it may have known by times, which a replay has not.
    for (auto* placements : {&replayed.placements, &replayed.freed}) {
      for (policy::FinalPlacement& placement : *placements) {
        if (trace.probed.contains(placement.allocation)) placement.found = policy::UseFound::in_parts;
      }
    }
    std::string remark = budget_remark(replayed);
    if (!remark.empty()) settings.device_budget = request.budget = policy::SizeOrShare{replayed.budget};
    policy::Plan plan = policy::make_plan(replayed, settings);
    // What is expected is of the file that is written, not of the replay that it was made from.
    request.keep = policy::ReplayOptions::Keep::figures;
    request.least_budget = ReplayRequest::LeastBudget::wanted;
    if (const auto problem = try_replay(trace_, trace, {{"plan", plan.file}}, request, replays))
      return complain(*problem, kFailure);
    const Expectation expected = expect_of(trace, replays.front(), recorded.front());
    plan.title += "\n" + expectation_text(expected);
    const std::string text = policy::write_plan(plan);
    if (!plan.why_no_rule.empty()) remark += (remark.empty() ? "" : ". ") + plan.why_no_rule;
    if (!remark.empty()) complain(remark, kSuccess);
    if (replays.front().result.out_of_memory > 0) complain(too_small(replays.front()), kSuccess);
    if (output_.empty()) {
      print(json_ ? json_of(trace, expected) : text);
      return kSuccess;
    }
    const KeptFile kept = keep_old(output_, text);
    if (kept.problem) return complain(*kept.problem, kFailure);
    if (!kept.name.empty()) complain("the plan that was in " + output_ + " is kept as " + kept.name, kSuccess);
    OutputFile file;
    std::optional<std::string> problem = file.open(output_);
    if (!problem) {
      file.write(text);
      problem = file.finish();
    }
    if (problem) return complain(cannot_be_written(output_, *problem), kFailure);
    print(json_ ? json_of(trace, expected)
                : expectation_text(expected) + "\n" +
                      written_line(output_, policy::counted(plan.file.rules.size(), "rule", "rules")));
    return kSuccess;
  }

 private:
  [[nodiscard]] std::string too_small(const NamedReplay& replay) const {
    const policy::Bytes least = replay.least_budget;
    return "--device-budget: " + policy::quoted(budget_) +
           " is too small: " + policy::counted(replay.result.out_of_memory, "allocation is", "allocations are") +
           " refused, so the program would end: out of memory; write " +
           (least == policy::Bytes() ? "more" : "at least " + budget_text(least));
  }
  static std::string json_of(const TraceEvents& trace, const Expectation& expected) {
    using Json = nlohmann::ordered_json;
    Json json = {{"trace", trace.path}, {"whole", trace.state == "whole"}, {"completeness", trace.state}};
    json.update(expectation_json(expected));
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  // A plan may be made anew in its place, which keeps the one before; anything else that is there belongs to someone.
  [[nodiscard]] std::optional<std::string> output_problem() const {
    if (auto problem = replaces_input(output_, {trace_})) return problem;
    const std::string mark = "# " + std::string(policy::kPlanMark);
    return replaces_foreign(output_, {mark}, "was not written by spillway plan");
  }

  std::string trace_;
  std::string budget_;
  std::string output_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace spillway::tools
