// Every setting Spillway has: one table of name, type, default, range and sentence. The environment, `spillway run`
// flags, the policy file, `spillway check` and the reference page in docs/ are all made from it.
//
// A key "memory.device_budget" is the environment variable SPILLWAY_DEVICE_BUDGET, the flag --device-budget and
// `device_budget` under [memory] in a policy file; the row's short name ("device_budget") makes the first two. Where
// the last word alone says too little the short name keeps the table's: SPILLWAY_TRACE_PATH, --log-level. Read once
// into an immutable Settings; nothing here reads the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "policy/units.hpp"

namespace spillway::policy {

// "16GiB" or "80%" of what the sentence of the setting says.
struct SizeOrShare {
  std::variant<Bytes, double> value;          // double: percent, 0 to 100
  [[nodiscard]] Bytes of(Bytes whole) const;  // a size is itself, even above `whole`
  friend bool operator==(const SizeOrShare&, const SizeOrShare&) = default;
};

enum class BackingMode : std::uint8_t { automatic, managed, device };
enum class ReportMode : std::uint8_t { virtual_memory, real };
enum class ModeName : std::uint8_t { off, demand, alloc_prefetch, arrival, adaptive };
enum class Switch : std::uint8_t { automatic, off };

struct Settings {
  std::optional<SizeOrShare> device_budget;  // unset: what is free when the device is first seen, less the reserve
  BackingMode backing = BackingMode::automatic;
  SizeOrShare host_budget{90.0};
  SizeOrShare window{100.0};  // share of the budget, less plain memory, that managed pages may fill
  SizeOrShare plain_share{
      25.0};  // share of the budget that `auto` keeps plain when nothing says that the run will spill
  ReportMode report = ReportMode::virtual_memory;
  bool oom_first = false;
  Switch spill_vmm = Switch::automatic;    // of map-style memory (cuMemCreate)
  Switch spill_pools = Switch::automatic;  // of stream-ordered memory (cuMemAllocAsync)
  ModeName mode = ModeName::adaptive;
  std::uint32_t iteration_lookahead = 2;
  Switch cupti = Switch::automatic;
  Switch events = Switch::automatic;  // the driver's, for kernel times where there is no CUPTI
  double telemetry_sample = 5.0;      // percent of launches whose kernels are timed; 0: none
  Switch probes = Switch::automatic;
  std::string trace_path;  // empty: no trace; %p pid, %t start time, %h host, %r rank
  Bytes trace_max_size;    // of the file; zero: no limit
  std::string log_level = "info";
  friend bool operator==(const Settings&, const Settings&) = default;
};

// One mistake in a setting, wherever it was made. All of them are collected; none stops the search for the next.
struct SettingProblem {
  std::string place;    // "SPILLWAY_DEVICE_BUDGET", "--window" or "policy.toml:3:17"
  std::string value;    // as written; empty: there is none to show
  std::string problem;  // "is not a size"
  std::string remedy;   // "write a size such as 16GiB, or a share such as 80%"
  [[nodiscard]] std::string sentence() const;
};

// What a policy file may write for the value; the environment writes text for all of them.
enum class SettingKind : std::uint8_t { size_or_share, choice, boolean, number, percent, text };

struct SettingRow {
  std::string_view key;         // "memory.device_budget"
  std::string_view short_name;  // "device_budget"; unique in the table
  SettingKind kind;
  std::string_view type;  // "size or share", "one of: ...", "true or false", "number", "text"
  std::string_view default_text;
  std::string_view range;     // as shown to a person
  std::string_view sentence;  // one sentence of help
  // Parses `text` into `settings`; returns what is wrong with it, or nothing.
  std::optional<SettingProblem> (*set)(Settings& settings, std::string_view text);
  std::string (*get)(const Settings& settings);        // the value as one would write it
  std::string_view flag = {};                          // "trace" where the short name would be clumsy as a flag
  [[nodiscard]] std::string environment_name() const;  // SPILLWAY_DEVICE_BUDGET
  [[nodiscard]] std::string flag_name() const;         // --device-budget
  // For --help and the man page: the sentence, the range where the type does not say it, the variable, the default.
  [[nodiscard]] std::string help() const;
};

// The table, in the order of the reference page.
std::span<const SettingRow> setting_table();
const SettingRow* find_setting(std::string_view key);

// Sets one key; the problem, if any, carries `place`.
std::optional<SettingProblem> set_setting(Settings& settings, std::string_view key, std::string_view text,
                                          std::string_view place);

// Reads every setting for which `look_up(environment name)` has a value (getenv in the shim, a map in tests), and
// reports an unknown SPILLWAY_ name only through `set_setting`. A bad value leaves the default in place.
std::vector<SettingProblem> settings_from_environment(Settings& settings,
                                                      const std::function<const char*(const char*)>& look_up);

// Every name among `names` (those of the whole environment) that looks like a setting of ours and is none, with the
// nearest that is. Names of the simulated device (SPILLWAY_SIMULATED_*) and the policy file's are left alone.
std::vector<SettingProblem> unknown_environment_names(std::span<const std::string_view> names);

// The environment name of the policy file. Not a setting, since it says where settings come from; the shim reads it.
inline constexpr std::string_view kPolicyFileEnvironmentName = "SPILLWAY_POLICY";

// The known word nearest to `word` (edit distance), or nothing if none is near.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> known);

// "16GiB", "1.5 GiB", "512MiB", "4096" (bytes). KiB/MiB/GiB/TiB are powers of two, KB/MB/GB/TB of ten.
std::optional<Bytes> parse_bytes(std::string_view text);
std::string format_bytes(Bytes bytes);  // "1.5 GiB", rounded, for people
std::string write_bytes(Bytes bytes);   // "1536MiB", exact: parse_bytes gives the same back

// `text` in quotes as a message shows it: control characters escaped, a long text cut, always one line.
std::string quoted(std::string_view text);

}  // namespace spillway::policy
