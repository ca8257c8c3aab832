#include "shim/settings_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "policy/policy_file.hpp"
#include "shim/environment.hpp"
#include "shim/log.hpp"

namespace spillway::shim {
namespace {

// Nothing, and why. A named pipe would hold the program up for ever: only regular files are read.
std::optional<std::string> read_text(const char* path, const char*& why) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    why = file >= 0 && status.st_mode != 0 ? "it is no regular file" : std::strerror(errno);
    if (file >= 0) ::close(file);
    return std::nullopt;
  }
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(file, buffer.data(), buffer.size())) > 0 && text.size() <= policy::kLongestPolicyFile) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (got < 0) why = std::strerror(errno);
  ::close(file);
  if (got < 0) return std::nullopt;
  return text;
}

}  // namespace

RunSettings read_settings() {
  RunSettings run;
  if (const char* path = read_environment("SPILLWAY_POLICY"); path != nullptr && *path != '\0') {
    const char* why = "";
    if (const std::optional<std::string> text = read_text(path, why)) {
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
    SPILLWAY_LOG(warning, "{}; going on with the default", problem.sentence());
  }
  for (const policy::SettingProblem& problem : policy::unknown_environment_names(environment_names())) {
    SPILLWAY_LOG(warning, "{}; it is ignored", problem.sentence());
  }
  set_log_level(run.settings.log_level);
  return run;
}

}  // namespace spillway::shim
