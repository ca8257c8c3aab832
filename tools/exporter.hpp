// Writing a trace in another program's format: the window of it that is wanted, and one writer per format.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "policy/trace/trace_reader.hpp"
#include "tools/output_file.hpp"
#include "tools/run_follower.hpp"

namespace spillway::tools {

// Both ends are part of it.
struct ExportWindow {
  policy::Nanoseconds from{std::numeric_limits<std::int64_t>::min()};
  policy::Nanoseconds to{std::numeric_limits<std::int64_t>::max()};
  std::uint64_t first_iteration = 0;
  std::uint64_t last_iteration = std::numeric_limits<std::uint64_t>::max();
  [[nodiscard]] bool holds(policy::Nanoseconds time, std::uint64_t iteration) const {
    return time >= from && time <= to && iteration >= first_iteration && iteration <= last_iteration;
  }
};

// "1.5s", "20ms", "3us", "7ns" or "2" (seconds); nothing if it is no time.
std::optional<policy::Nanoseconds> parse_time(const std::string& text);
// "7", or "7..9"; false if it is neither.
bool parse_iterations(const std::string& text, ExportWindow& window);

// Calls come in this order: open, begin, add for every record, finish. The first problem ends the export; it is a
// sentence with the reason, without the file's name.
class Exporter {
 public:
  virtual ~Exporter() = default;
  // How a file that it wrote is known.
  [[nodiscard]] virtual FileMark mark() const = 0;
  // Of which run (run_name.hpp) the file at `path` is, if it wrote that one; empty: it does not say.
  [[nodiscard]] virtual std::string run_of(const std::string& path) const = 0;
  virtual std::optional<std::string> open(const std::string& path) = 0;
  virtual void begin(const policy::trace::TraceHeader& header) = 0;
  // After `run` has seen the record. `inside`: the record lies in the window; what names things is written anyway.
  virtual void add(const policy::trace::Record& record, RunFollower& run, bool inside) = 0;
  virtual std::optional<std::string> finish(const policy::trace::TraceReader& reader, RunFollower& run) = 0;
  // True once something could not be written: reading on is no use.
  [[nodiscard]] virtual bool failed() const = 0;
};

std::unique_ptr<Exporter> make_csv_exporter();
std::unique_ptr<Exporter> make_sqlite_exporter();
std::unique_ptr<Exporter> make_perfetto_exporter();

}  // namespace spillway::tools
