// spillway replay: a trace under other policies and budgets, without a GPU, beside what no policy can beat.
#include <CLI/CLI.hpp>

#include <charconv>

#include "policy/size_text.hpp"
#include "tools/command.hpp"
#include "tools/option_checks.hpp"
#include "tools/replay.hpp"
#include "tools/terminal.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {
namespace {

class ReplayCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("trace", trace_, "Trace file (.swt)")->required();
    app.add_option("--policy", policy_,
                   "Policy file, or a mode (default: the mode of the recorded run; adaptive if that was off)")
        ->type_name("FILE or mode")
        ->check(names_file());
    app.add_option("--compare", compare_,
                   "More policy files or modes, each a line of the table; a mode has the recorded run's other settings")
        ->type_name("FILE or mode ...")
        ->delimiter(',');
    budget_given_ = app.add_option("--device-budget", budget_,
                                   "Budget in place of the policies' own: a size such as 16GiB, or a share such as 80%")
                        ->type_name("size or share");
    from_given_ = app.add_option("--from-launch", from_,
                                 "Count from this launch on (default: the middle of the trace, after learning)")
                      ->type_name("number");
    app.add_flag("--json", json_, "Print JSON");
  }

  int run() override {
    ReplayRequest request;
    if (budget_given_->count() > 0) {
      policy::Settings settings;
      if (const auto problem = policy::set_setting(settings, "memory.device_budget", budget_, "--device-budget")) {
        return complain(problem->sentence());
      }
      request.budget = settings.device_budget;
    }
    TraceEvents trace;
    if (const auto problem = one_trace(trace_)) return complain(*problem, kFailure);
    if (const auto problem = read_events(trace_, trace)) return complain(*problem, kFailure);
    if (!trace.costs.problem.empty()) complain(trace.costs.problem, kSuccess);
    std::vector<NamedPolicy> policies;
    // What a recording without us would have been under us is the question; not what off is.
    const bool off = trace.settings.mode == policy::ModeName::off;
    const std::string recorded = off ? "adaptive" : policy::find_setting("policy.mode")->get(trace.settings);
    compare_.insert(compare_.begin(), policy_.empty() ? recorded : policy_);
    for (const std::string& name : compare_) {
      NamedPolicy policy;
      if (const auto problem = load_policy(name, policy, trace.settings)) return complain(*problem);
      policies.push_back(std::move(policy));
    }
    if (trace.launches == 0) return complain(no_launch(trace_, trace), kFailure);
    if (from_given_->count() > 0) {
      std::uint64_t from = 0;
      const auto read = std::from_chars(from_.data(), from_.data() + from_.size(), from);
      if (read.ec == std::errc::invalid_argument || read.ptr != from_.data() + from_.size()) {
        return complain("--from-launch: " + policy::quoted(from_) + " is not a whole number; write one from 0 to " +
                        std::to_string(trace.launches - 1));
      }
      if (read.ec != std::errc() || from >= trace.launches) {
        return complain("--from-launch: " + policy::quoted(from_) + " leaves no launch to count; this trace has " +
                        std::to_string(trace.launches) + ": write a number from 0 to " +
                        std::to_string(trace.launches - 1));
      }
      request.from_launch = from;
    }
    request.least_budget = ReplayRequest::LeastBudget::wanted;
    std::vector<NamedReplay> replays;
    if (const auto problem = try_replay(trace_, trace, policies, request, replays)) return complain(*problem, kFailure);
    const Terminal terminal = terminal_of_output();
    print(json_
              ? replay_json(trace, replays).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
              : page_for(terminal, replay_text(trace, replays, terminal.width)));
    return kSuccess;
  }

 private:
  std::string trace_;
  std::string policy_;
  std::vector<std::string> compare_;
  std::string budget_;
  std::string from_;
  const CLI::Option* budget_given_ = nullptr;
  const CLI::Option* from_given_ = nullptr;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_replay_command() { return std::make_unique<ReplayCommand>(); }

}  // namespace spillway::tools
