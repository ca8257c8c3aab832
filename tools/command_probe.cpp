// spillway probe: measures what this machine's device and link cost, and keeps it for the runs that follow.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "tools/command.hpp"
#include "tools/cost_cache.hpp"
#include "tools/preload.hpp"
#include "tools/probe.hpp"
#include "tools/terminal.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSimulatedRemark =
    "Simulated device: these figures are its virtual clock's and say nothing of a GPU.";

std::string now_text() {
  const std::time_t moment = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&moment, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string cost_for_people(double value, std::string_view unit) {
  char text[48];
  if (unit == "bytes/s") {
    std::snprintf(text, sizeof text, "%.1f GB/s", value / 1e9);
  } else if (unit == "s") {
    std::snprintf(text, sizeof text, "%.1f us", value * 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.2f MB", value / 1e6);
  }
  return text;
}

// A driver that is stuck in a call cannot be asked to stop: the process ends, and the driver takes back what it had.
void give_up(int) {
  static constexpr std::string_view kLine =
      "spillway: the driver did not answer within 15 s; nothing is kept. Is the card busy? Try again when it is idle\n";
  if (::write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) ::_exit(kFailure);
  ::_exit(kFailure);
}

// Empty for a number.
std::string number_problem(const std::string& text) {
  const bool number = text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos && !text.empty();
  return number ? "" : policy::quoted(text) + " is not a device; write a device number, 0 for the first";
}

class ProbeCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("--device", device_, "Number of the device to measure")
        ->type_name("number")
        ->capture_default_str()
        ->check(number_problem);
    app.add_flag("--simulated", simulated_, "Measure the simulated device: shows how it goes, tells nothing of a GPU");
    CLI::Option* save = app.add_flag("--save", save_, "Keep the costs for later runs; a GPU's are kept in any case");
    app.add_flag("--no-save", print_only_, "Only print them, as is done with the simulated device's")->excludes(save);
    app.add_flag("--json", json_, "Print JSON");
  }

  int run() override {
    if (const char* preload = std::getenv("LD_PRELOAD");
        preload != nullptr && std::string_view(preload).find("libspillway") != std::string_view::npos) {
      return complain("probe runs under Spillway itself, which would be measured with the machine: unset LD_PRELOAD");
    }
    std::string library = "libcuda.so.1";
    if (simulated_) {
      const FoundPath shim = find_library();
      const FoundPath folder = shim.problem ? shim : find_simulated_device(shim.path);
      if (folder.problem) return complain(*folder.problem, kFailure);
      library = folder.path + "/libcuda.so.1";
    }
    CudaDriver driver;
    if (const auto problem = driver.open(library)) return complain(*problem, kFailure);
    std::signal(SIGALRM, give_up);
    if (!driver.simulated()) ::alarm(static_cast<unsigned>(kMostSeconds));
    std::string problem;
    const std::optional<ProbeResult> result = probe_device(driver, device_, problem);
    ::alarm(0);
    if (!result) return complain("device " + std::to_string(device_) + ": " + problem, kFailure);
    std::string path;
    if (save_ || (!print_only_ && !result->simulated)) {
      const policy::CostFile file{result->device, SPILLWAY_VERSION, now_text(), result->costs};
      if (const auto trouble = save_costs(file, path)) problem = *trouble;
    }
    if (!problem.empty()) path.clear();
    const std::string why_not = !problem.empty() ? ""
                                : print_only_    ? ", as --no-save says"
                                                 : ": these costs are a model's; --save keeps them";
    if (json_) {
      print(json_of(*result, path));
    } else {
      const Terminal terminal = terminal_of_output();
      print(page_for(terminal, text_of(*result, path, why_not, terminal.width)));
    }
    return problem.empty() ? kSuccess : complain(problem, kFailure);
  }

 private:
  static std::string text_of(const ProbeResult& result, const std::string& path, const std::string& why_not,
                             std::size_t width) {
    std::string text = harmless(result.device.name) + ", CUDA " + result.device.driver + ", measured with " +
                       policy::format_bytes(result.used) + " of its memory\n";
    if (result.simulated) text += std::string(kSimulatedRemark) + "\n";
    TextTable table({{"cost", Align::left}, {"measured"}, {"built in"}, {"what", Align::left}});
    for (const ProbeFigure& figure : result.figures)
      table.add({figure.key, cost_for_people(figure.value, figure.unit), "-", figure.sentence});
    const policy::CostTable built_in;
    for (const policy::CostRow& row : policy::cost_rows()) {
      table.add({std::string(row.key), cost_for_people(result.costs.*row.field, row.unit),
                 cost_for_people(built_in.*row.field, row.unit), std::string(row.sentence)});
    }
    text += "\n" + table.str(width) + "\n";
    text += path.empty() ? "Not kept" + why_not + ".\n"
                         : "Kept in " + harmless(path) +
                               "; runs on this device go by it from now on, and replay and plan too.\n";
    return text;
  }

  static std::string json_of(const ProbeResult& result, const std::string& path) {
    Json json = {
        {"simulated", result.simulated},
        {"device", {{"uuid", result.device.uuid}, {"name", result.device.name}, {"driver", result.device.driver}}},
        {"device_bytes_used", result.used.count()}};
    for (const policy::CostRow& row : policy::cost_rows())
      json["costs"][std::string(row.key)] = result.costs.*row.field;
    for (const ProbeFigure& figure : result.figures) json["figures"][figure.key] = figure.value;
    json["kept_in"] = path.empty() ? Json(nullptr) : Json(path);
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  int device_ = 0;
  bool simulated_ = false;
  bool save_ = false;
  bool print_only_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_probe_command() { return std::make_unique<ProbeCommand>(); }

}  // namespace spillway::tools
