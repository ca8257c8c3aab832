#include "tools/simulated_device/settings.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "tools/simulated_device/memory_size.hpp"
#include "tools/simulated_device/variables.hpp"

namespace spillway::simulated {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::string problem(const char* name, const std::string& value, const char* remedy) {
  return std::string(name) + "=\"" + value + "\": " + remedy;
}

// lib*_twins.so in the folder of this library: what the build puts there.
std::vector<std::string> twins_beside_us() {
  std::vector<std::string> found;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&twins_beside_us), &info) == 0 || info.dli_fname == nullptr) return found;
  std::error_code ignored;
  const auto folder = std::filesystem::absolute(info.dli_fname, ignored).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("lib") && name.ends_with("_twins.so")) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void read_ranged(const NumberVariable& ranged, int& out, std::vector<std::string>& problems) {
  const auto text = variable(ranged.name);
  if (!text) return;
  const NumberReading number = read_number(ranged, *text);
  if (number.problem.empty()) {
    out = static_cast<int>(number.value);
  } else {
    problems.push_back(number.problem);
  }
}

void read_memory(Settings& settings) {
  const auto text = variable(kMemoryVariable);
  if (!text) return;
  const MemorySize size = read_memory_size(*text);
  if (size.problem.empty()) {
    settings.memory_bytes = size.bytes;
  } else {
    settings.problems.push_back(size.problem);
  }
}

void read_kernels(Settings& settings) {
  const auto text = variable("SPILLWAY_SIMULATED_KERNELS");
  if (!text) {
    settings.twin_libraries = twins_beside_us();
    return;
  }
  std::istringstream list(*text);
  for (std::string path; std::getline(list, path, ':');) {
    if (path.empty()) continue;
    if (access(path.c_str(), R_OK) != 0) {
      settings.problems.push_back(problem("SPILLWAY_SIMULATED_KERNELS", path,
                                          "no such readable twin library; give existing paths, separated by colons"));
    }
    settings.twin_libraries.push_back(path);
  }
}

std::string with_process_id(std::string path) {
  if (const auto place = path.find("%p"); place != std::string::npos) path.replace(place, 2, std::to_string(getpid()));
  return path;
}

}  // namespace

Settings read_settings() {
  Settings settings;
  read_memory(settings);
  read_ranged(kDevices, settings.devices, settings.problems);
  read_ranged(kDriverVersion, settings.driver_version, settings.problems);
  int no_managed = 0;
  read_ranged(kNoManaged, no_managed, settings.problems);
  settings.managed = no_managed == 0;
  int no_host_numa = 0;
  read_ranged(kNoHostNuma, no_host_numa, settings.problems);
  settings.host_numa = no_host_numa == 0;
  read_kernels(settings);
  settings.report_path = with_process_id(variable("SPILLWAY_SIMULATED_REPORT").value_or(""));
  if (const auto text = variable("SPILLWAY_SIMULATED_FAULTS")) {
    std::istringstream list(*text);
    for (std::string item; std::getline(list, item, ',');) {
      if (item.empty()) continue;
      if (const auto injection = parse_injection(item)) {
        settings.injections.push_back(*injection);
      } else {
        settings.problems.push_back(problem("SPILLWAY_SIMULATED_FAULTS", item,
                                            "give SYMBOL:CALL:CODE or SYMBOL:CALL:delay=NUMBERms, CALL being a number "
                                            "from 1 or *, SYMBOL an exported name such as cuMemAlloc_v2"));
      }
    }
  }
  return settings;
}

}  // namespace spillway::simulated
