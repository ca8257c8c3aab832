#include "tools/cost_cache.hpp"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tools/output_file.hpp"
#include "tools/regular_file.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

std::string folder() { return policy::cost_folder(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME")); }

// A file that is there and bad is a problem; none is nothing.
std::optional<policy::CostTable> read_file(const std::string& path, const policy::ProbedDevice& device,
                                           std::string& problem) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  std::string why;
  const std::optional<std::string> text = read_regular(path, policy::kLongestCostFile, why);
  std::optional<policy::CostTable> costs;
  if (text) {
    costs = policy::read_cost_file(*text, device, why);
  } else {
    why = policy::unread_cost_file(why);
  }
  if (!costs) problem = path + " is ignored: " + why + "; going on with the built-in costs";
  return costs;
}

}  // namespace

std::optional<std::string> save_costs(const policy::CostFile& file, std::string& path) {
  const std::string into = folder();
  if (into.empty())
    return "there is no place to keep the costs: set HOME or XDG_CACHE_HOME to a folder's absolute path";
  path = into + "/" + policy::cost_file_name(file.device.uuid);
  std::error_code error;
  fs::create_directories(into, error);
  OutputFile output;
  std::optional<std::string> problem = output.open(path);
  if (!problem) {
    output.write(policy::write_cost_file(file));
    problem = output.finish();
  }
  if (problem) return path + ": cannot be written: " + *problem + "; set XDG_CACHE_HOME to a folder that can be";
  return std::nullopt;
}

TraceCosts costs_of_trace(const policy::trace::TraceHeader& header) {
  TraceCosts found;
  if (header.cost_table.find(':') != std::string::npos) {
    std::vector<std::string> problems;
    const policy::CostTable costs = policy::read_costs(header.cost_table, problems);
    if (problems.empty()) {
      found.costs = costs;
      found.source = "as probed on the machine that recorded";
    } else {
      found.problem = "the trace's cost table is ignored: " + problems.front() + "; going on with the built-in costs";
    }
    return found;
  }
  const std::string from = folder();
  for (const policy::DeviceSeen& device : header.devices) {
    if (from.empty()) break;
    const std::string uuid = policy::uuid_text(device.uuid);
    const std::string path = from + "/" + policy::cost_file_name(uuid);
    if (const auto costs = read_file(path, {uuid, device.name, header.driver_version}, found.problem)) {
      found.costs = *costs;
      found.source = path;
      break;
    }
  }
  return found;
}

}  // namespace spillway::tools
