#include <array>
#include <cstdio>

#include "tools/command.hpp"

#include "tools/text_table.hpp"

namespace spillway::tools {

std::span<const CommandRow> command_table() {
  static constexpr std::array kTable = {
      CommandRow{"run", "Run a program beyond its GPU's memory", "[flags] [--] program [arguments]",
                 "spillway run --device-budget 16GiB --trace train.%p.swt -- python train.py --epochs 3",
                 Takes::program, make_run_command},
      CommandRow{"check", "Say what is wrong with a policy file, and what its rules would match in a trace",
                 "FILE [--trace TRACE] [--json]", "spillway check training.toml --trace train.4242.swt",
                 Takes::arguments, make_check_command},
      CommandRow{"stats", "Say what a trace holds: what spilled, what moved, and why", "TRACE... [flags]",
                 "spillway stats train.4242.swt", Takes::arguments, make_stats_command},
      CommandRow{"top", "Show a run as it goes on: budget, what is resident, what moves, and how fast",
                 "PID|TRACE [flags]", "spillway top 4242", Takes::arguments, make_top_command},
      CommandRow{"export", "Write a trace for other programs: Perfetto, SQLite, CSV",
                 "TRACE --format FORMAT -o FILE [--from TIME] [--to TIME] [--iteration N[..M]]",
                 "spillway export train.4242.swt --format perfetto --iteration 20..22 -o train.pftrace",
                 Takes::arguments, make_export_command},
      CommandRow{"replay", "Say what a trace would have cost under other policies and budgets", "TRACE [flags]",
                 "spillway replay train.4242.swt --device-budget 16GiB --compare demand arrival", Takes::arguments,
                 make_replay_command},
      CommandRow{"plan", "Make a policy file for the next run from a trace, and say what to expect of it",
                 "TRACE --device-budget SIZE [-o FILE] [--json]",
                 "spillway plan train.4242.swt --device-budget 16GiB -o plan.toml", Takes::arguments,
                 make_plan_command},
      CommandRow{"view", "Show a trace as a page for a browser: what moved, when and why",
                 "TRACE [-o PAGE] | TRACE --serve [--port N]", "spillway view train.4242.swt -o train.html",
                 Takes::arguments, make_view_command},
      CommandRow{"probe", "Measure what this machine's device and link cost, for the policy to go by",
                 "[--device N] [--simulated] [--save | --no-save] [--json]", "spillway probe", Takes::arguments,
                 make_probe_command},
      CommandRow{"doctor", "Say whether this machine, or a program, can be served, and how",
                 "[flags] [-- program [arguments]]", "spillway doctor --time-limit 60 -- python train.py",
                 Takes::program, make_doctor_command},
      CommandRow{"completion", "Print the completions of a shell, or the man page", "bash|zsh|fish|man",
                 "spillway completion bash > ~/.local/share/bash-completion/completions/spillway", Takes::arguments,
                 make_completion_command},
  };
  return kTable;
}

int complain(const std::string& text, int code) {
  std::fprintf(stderr, "spillway: %s\n", harmless(text).c_str());
  return code;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace spillway::tools
