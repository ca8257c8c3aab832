#include "shim/settings_source.hpp"

#include <optional>
#include <string>

#include "policy/policy_file.hpp"
#include "shim/environment.hpp"
#include "shim/log.hpp"
#include "shim/text_file.hpp"

namespace spillway::shim {

RunSettings read_settings() {
  RunSettings run;
  if (const char* path = read_environment("SPILLWAY_POLICY"); path != nullptr && *path != '\0') {
    const char* why = "";
    if (const std::optional<std::string> text = read_text_file(path, policy::kLongestPolicyFile, why)) {
      policy::PolicyFileReading reading = policy::read_policy_file(*text, path);
      if (reading.ok()) {
        run.settings = std::move(reading.file.settings);
        run.rules = std::move(reading.file.rules);
        run.policy_file = path;
      } else {
        SPILLWAY_LOG(warning,
                     "{} (and {} more); going on as if SPILLWAY_POLICY was not set; `spillway check {}` shows all",
                     reading.mistakes.front().sentence(), reading.mistakes.size() - 1, path);
      }
    } else {
      SPILLWAY_LOG(warning, "SPILLWAY_POLICY: \"{}\" cannot be read ({}); going on as if it was not set", path, why);
    }
  }
  for (const policy::SettingProblem& problem : policy::settings_from_environment(run.settings, read_environment)) {
    SPILLWAY_LOG(warning, "{} (going on with the default)", problem.sentence());
  }
  for (const policy::SettingProblem& problem : policy::unknown_environment_names(environment_names())) {
    SPILLWAY_LOG(warning, "{} (it is ignored)", problem.sentence());
  }
  set_log_level(run.settings.log_level);
  return run;
}

}  // namespace spillway::shim
