#include "shim/program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <string>

#include "shim/driver.hpp"
#include "shim/environment.hpp"

#ifndef SPILLWAY_VERSION
#error "the build defines SPILLWAY_VERSION"
#endif

namespace spillway::shim {
namespace {

constexpr std::array kRankVariables = {"OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID", "PMI_RANK"};
constexpr std::size_t kMostArguments = 256;

std::string executable() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

std::vector<std::string> arguments() {
  std::vector<std::string> found;
  std::string text;
  const int file = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return found;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(file, buffer.data(), buffer.size())) > 0 && text.size() < (1U << 16U);) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(file);
  for (std::size_t start = 0; start < text.size() && found.size() < kMostArguments;) {
    const std::size_t end = std::min(text.find('\0', start), text.size());
    found.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return found;
}

std::string start_of_run() {
  const std::time_t moment = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&moment, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace

std::string driver_version() {
  int version = 0;
  if (driver().cuDriverGetVersion == nullptr || driver().cuDriverGetVersion(&version) != CUDA_SUCCESS) return {};
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

policy::trace::TraceHeader describe_program(const policy::Settings& settings, const std::string& policy_file,
                                            std::span<const policy::trace::RuleSeen> rules) {
  policy::trace::TraceHeader header;
  header.program = executable();
  header.arguments = arguments();
  header.pid = static_cast<std::uint64_t>(::getpid());
  header.parent_pid = static_cast<std::uint64_t>(::getppid());
  header.start = start_of_run();
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) header.host = host.data();
  for (const char* name : kRankVariables) {
    if (const char* rank = read_environment(name); rank != nullptr && header.rank.empty()) header.rank = rank;
  }
  header.driver_version = driver_version();
  header.build = SPILLWAY_VERSION;
  for (const policy::SettingRow& row : policy::setting_table()) {
    header.settings.emplace_back(std::string(row.key), row.get(settings));
  }
  header.rules.assign(rules.begin(), rules.end());
  // No setting by itself: the file is where some of them, and all rules, come from.
  if (!policy_file.empty()) header.settings.emplace_back("policy.file", policy_file);
  return header;
}

}  // namespace spillway::shim
