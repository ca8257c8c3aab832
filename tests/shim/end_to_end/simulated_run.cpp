#include "tests/shim/end_to_end/simulated_run.hpp"

#include <stdlib.h>

#include <fstream>
#include <ostream>
#include <sstream>
#include <utility>

namespace spillway::tests {

namespace fs = std::filesystem;

Scratch::Scratch() {
  std::string pattern = (fs::temp_directory_path() / "spillway-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
  // Runs as another user write here too.
  fs::permissions(path_, fs::perms::all);
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::uint64_t SimulatedResult::calls(const std::string& symbol) const {
  return report.is_object() ? report.at("calls").value(symbol, std::uint64_t{0}) : 0;
}

std::uint64_t SimulatedResult::count(const std::string& name) const {
  return report.is_object() ? report.at(name).get<std::uint64_t>() : 0;
}

std::uint64_t SimulatedResult::resident_peak() const {
  std::uint64_t peak = 0;
  if (!report.is_object()) return peak;
  for (const auto& device : report.at("devices")) peak += device.at("resident_peak_bytes").get<std::uint64_t>();
  return peak;
}

std::size_t SimulatedResult::leaks() const { return report.is_object() ? report.at("leaks").size() : 0; }

std::uint64_t SimulatedResult::leaked_bytes() const {
  std::uint64_t bytes = 0;
  if (!report.is_object()) return bytes;
  for (const auto& leak : report.at("leaks")) bytes += leak.at("bytes").get<std::uint64_t>();
  return bytes;
}

std::string SimulatedResult::line(const std::string& start) const {
  std::istringstream lines(process.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return {};
}

std::vector<fs::path> SimulatedResult::traces() const {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(scratch->path())) {
    if (entry.path().string().find(".swt") != std::string::npos) found.push_back(entry.path());
  }
  return found;
}

nlohmann::json SimulatedResult::stats() const {
  const std::vector<fs::path> all = traces();
  if (all.size() != 1) return {};
  return nlohmann::json::parse(run_process({SPILLWAY_COMMAND, "stats", "--json", all.front().string()}).out, nullptr,
                               false);
}

SimulatedResult run_simulated(const SimulatedRun& run) {
  SimulatedResult result;
  result.scratch = std::make_shared<Scratch>();
  const fs::path report = result.scratch->path() / "report.json";
  ProcessOptions options;
  options.user = run.user;
  options.environment = run.environment;
  auto& environment = options.environment;
  environment.emplace("LD_LIBRARY_PATH", SPILLWAY_SIMULATED_FOLDER);
  environment.emplace("SPILLWAY_SIMULATED_MEMORY", run.memory);
  environment.emplace("SPILLWAY_SIMULATED_REPORT", report.string());
  if (!run.faults.empty()) environment.emplace("SPILLWAY_SIMULATED_FAULTS", run.faults);
  std::vector<std::string> command = {"timeout", "-k", "2", std::to_string(run.seconds_limit)};
  if (!run.mode.empty()) {
    command.insert(command.end(), {"env", "LD_PRELOAD=" SPILLWAY_LIBRARY});
    environment.emplace("SPILLWAY_MODE", run.mode);
    if (!run.budget.empty()) environment.emplace("SPILLWAY_DEVICE_BUDGET", run.budget);
    if (run.traced) environment.emplace("SPILLWAY_TRACE_PATH", (result.scratch->path() / "trace.%p.swt").string());
  }
  command.insert(command.end(), run.command.begin(), run.command.end());
  result.process = run_process(command, options);
  if (std::ifstream file(report); file) result.report = nlohmann::json::parse(file, nullptr, false);
  return result;
}

ProcessResult run_on_simulated(const std::string& command, const std::vector<std::string>& words,
                               std::map<std::string, std::string> environment) {
  std::vector<std::string> line = {SPILLWAY_COMMAND, command, "--simulated"};
  line.insert(line.end(), words.begin(), words.end());
  environment.emplace("SPILLWAY_SIMULATED_MEMORY", "128MiB");
  return run_process(line, in_environment(std::move(environment)));
}

ProcessOptions in_environment(std::map<std::string, std::string> environment) {
  ProcessOptions options;
  options.environment = std::move(environment);
  return options;
}

std::ostream& operator<<(std::ostream& out, const SimulatedRun& run) {
  out << (run.mode.empty() ? "bare" : "mode " + run.mode);
  if (!run.budget.empty()) out << " budget " << run.budget;
  if (!run.faults.empty()) out << " faults " << run.faults;
  return out;
}

std::ostream& operator<<(std::ostream& out, const SimulatedResult& result) {
  return out << "exit " << result.process.exit_code << ", signal " << result.process.signal << "\n"
             << result.process.out << "---\n"
             << result.process.err;
}

std::vector<std::string> all_modes() { return {"demand", "alloc_prefetch", "arrival", "adaptive"}; }

}  // namespace spillway::tests
