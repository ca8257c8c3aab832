#include "tests/shim/end_to_end/telemetry_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "policy/trace/trace_reader.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tests {

SimulatedRun telemetry_run(const std::vector<std::string>& command, const std::string& mode,
                           const std::string& sample) {
  SimulatedRun run;
  run.command = command;
  run.mode = mode;
  run.budget = mode.empty() || mode == "off" ? "" : "20MiB";
  run.memory = "64MiB";
  run.traced = true;
  run.environment["SPILLWAY_SIMULATED_KERNELS"] = TEST_TWINS;
  run.environment["SPILLWAY_TELEMETRY_SAMPLE"] = sample;
  run.environment["SPILLWAY_PLAIN_SHARE"] = "0%";
  return run;
}

SimulatedRun without_events(SimulatedRun run) {
  run.environment["SPILLWAY_TELEMETRY_EVENTS"] = "off";
  return run;
}

SimulatedRun without_cupti(SimulatedRun run) {
  run.environment["SPILLWAY_CUPTI"] = "off";
  return run;
}

void expect_same_program(const SimulatedRun& run, const SimulatedResult& result) {
  const SimulatedResult bare =
      run_simulated({run.command, "", "", run.memory, "", false, run.environment, 0, run.seconds_limit});
  EXPECT_EQ(result.process.exit_code, bare.process.exit_code) << result;
  EXPECT_EQ(result.process.out, bare.process.out) << result.process.err;
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

int Told::states(policy::TelemetryState state) const {
  return static_cast<int>(
      std::count_if(changes.begin(), changes.end(), [state](const auto& change) { return change.state == state; }));
}

Told told_by(const SimulatedResult& result) {
  Told told;
  std::map<std::uint32_t, std::uint64_t> threads;
  if (result.traces().size() != 1) return told;
  const auto problem = tools::read_trace(
      result.traces().front().string(),
      [&](const policy::trace::Record& record) {
        if (record.kind == policy::trace::RecordKind::decision) {
          const auto* note = std::get_if<policy::Note>(&record.decision.body);
          if (note != nullptr && note->text.find("kernel times") != std::string::npos) told.notes.push_back(note->text);
          return;
        }
        const policy::EventBody& body = record.event.body;
        if (const auto* seen = std::get_if<policy::LaunchShapeSeen>(&body)) threads[seen->shape.value] = seen->threads;
        if (const auto* launch = std::get_if<policy::Launched>(&body)) {
          told.launches.push_back({launch->shape.value, threads[launch->shape.value]});
        }
        if (std::get_if<policy::GraphLaunched>(&body) != nullptr) told.launches.push_back({});
        if (const auto* timed = std::get_if<policy::KernelTimed>(&body)) {
          told.twice += told.times.contains(timed->launch.value) ? 1 : 0;
          told.times[timed->launch.value] = timed->duration.count();
        }
        if (const auto* changed = std::get_if<policy::TelemetryChanged>(&body)) told.changes.push_back(*changed);
      },
      [](const policy::trace::TraceReader&) {});
  EXPECT_FALSE(problem) << *problem;
  return told;
}

}  // namespace spillway::tests
