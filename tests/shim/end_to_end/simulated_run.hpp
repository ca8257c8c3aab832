// One program on the simulated device, bare or with the built library preloaded, and what the driver counted: the
// driver's own figures, which know nothing of ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace spillway::tests {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct SimulatedRun {
  std::vector<std::string> command;
  std::string mode;    // empty: bare, without the library
  std::string budget;  // empty: none set
  std::string memory = "256MiB";
  std::string faults;
  bool traced = false;
  std::map<std::string, std::string> environment;
  unsigned user = 0;       // to become, when we are root
  int seconds_limit = 30;  // then it hangs
};

// A folder of its own for one run, gone with the last copy of its result.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct SimulatedResult {
  ProcessResult process;
  nlohmann::json report;  // of the simulated driver; null if the program did not end by exit
  std::shared_ptr<Scratch> scratch;

  [[nodiscard]] bool hung() const { return process.exit_code == 124 || process.signal == 9; }
  [[nodiscard]] std::uint64_t calls(const std::string& symbol) const;
  [[nodiscard]] std::uint64_t count(const std::string& name) const;  // of the report
  [[nodiscard]] std::uint64_t resident_peak() const;                 // all devices
  [[nodiscard]] std::size_t leaks() const;
  [[nodiscard]] std::uint64_t leaked_bytes() const;
  // The rest of the first line of standard output that begins so.
  [[nodiscard]] std::string line(const std::string& start) const;
  [[nodiscard]] std::vector<std::filesystem::path> traces() const;
  // `spillway stats --json` of the only trace.
  [[nodiscard]] nlohmann::json stats() const;
};

SimulatedResult run_simulated(const SimulatedRun& run);

// `spillway COMMAND --simulated WORDS`, on a device of 128 MiB unless `environment` says otherwise.
ProcessResult run_on_simulated(const std::string& command, const std::vector<std::string>& words,
                               std::map<std::string, std::string> environment);

// For run_process, with these variables added.
ProcessOptions in_environment(std::map<std::string, std::string> environment);

// "mode adaptive", for messages.
std::ostream& operator<<(std::ostream& out, const SimulatedRun& run);
std::ostream& operator<<(std::ostream& out, const SimulatedResult& result);

std::vector<std::string> all_modes();

}  // namespace spillway::tests
