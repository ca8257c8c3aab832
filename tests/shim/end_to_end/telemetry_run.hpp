// Runs of the telemetry tests' programs, and what telemetry left in their traces.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policy/event.hpp"
#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {

constexpr std::size_t kAWindow = 400;   // a whole one has more, and at the end may be cut
constexpr std::size_t kSomeTimes = 50;  // by events, of one launch in four

SimulatedRun telemetry_run(const std::vector<std::string>& command, const std::string& mode = "arrival",
                           const std::string& sample = "100%");
SimulatedRun without_events(SimulatedRun run);
SimulatedRun without_cupti(SimulatedRun run);

// Exit code and output are those that it has without the library.
void expect_same_program(const SimulatedRun& run, const SimulatedResult& result);

int occurrences(const std::string& text, const std::string& part);

// What telemetry left in a trace, by launch.
struct Told {
  struct Launch {
    std::uint32_t shape = 0;  // graphs: 0
    std::uint64_t threads = 0;
  };
  std::vector<Launch> launches{{}};
  std::map<std::uint64_t, std::int64_t> times;  // by launch
  std::vector<policy::TelemetryChanged> changes;
  std::vector<std::string> notes;
  int twice = 0;  // launches timed more than once

  [[nodiscard]] int states(policy::TelemetryState state) const;
};
Told told_by(const SimulatedResult& result);

}  // namespace spillway::tests
