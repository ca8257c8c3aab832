#include "policy/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "policy/size_text.hpp"

namespace spillway::policy {
namespace {

using Result = std::optional<SettingProblem>;

constexpr std::string_view kSizeRemedy = "write a size such as 16GiB, or a share such as 80%";

SettingProblem problem(std::string_view value, std::string what, std::string remedy) {
  return {"", std::string(value), std::move(what), std::move(remedy)};
}

std::string size_remedy(std::string_view text, std::string_view otherwise) {
  const std::string meant = meant_size(text);
  return meant.empty() ? std::string(otherwise) : "did you mean " + quoted(meant) + "?";
}

// A size without its unit that is too small to be meant in bytes; nothing if it is neither.
Result bare_number(std::string_view text, Bytes bytes) {
  const std::string meant = meant_unit(text);
  if (meant.empty()) return std::nullopt;
  const std::string number(trimmed(text));
  const std::string share = bytes.count() <= 100 ? quoted(number + "%") + " or " : std::string();
  return problem(number, kBareNumber, "did you mean " + share + quoted(meant) + "?");
}

Result read_into(SizeOrShare& out, std::string_view text, Bytes least, double least_percent) {
  const SizeReading reading = read_size_or_share(text);
  if (reading.fault != SizeFault::none) {
    return problem(trimmed(text), describe(reading.fault, "size"), size_remedy(text, kSizeRemedy));
  }
  if (const Bytes* bytes = std::get_if<Bytes>(&reading.value.value)) {
    if (Result bare = bare_number(text, *bytes)) return bare;
    if (*bytes < least) {
      return problem(trimmed(text), "is below " + format_bytes(least),
                     "write at least " + write_bytes(least) + ", with its unit");
    }
  }
  if (const double* percent = std::get_if<double>(&reading.value.value);
      percent != nullptr && *percent < least_percent) {
    return problem(trimmed(text), "is below 1%", "write a share from 1% to 100%, or a size such as 16GiB");
  }
  out = reading.value;
  return std::nullopt;
}

std::string percent_text(double percent) {
  // Shortest text that gives the same number back, without exponent: reading knows none.
  std::array<char, 512> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), percent, std::chars_format::fixed).ptr;
  return std::string(buffer.data(), end) + "%";
}

std::string size_text(const SizeOrShare& value) {
  if (const double* percent = std::get_if<double>(&value.value)) return percent_text(*percent);
  return write_bytes(std::get<Bytes>(value.value));
}

template <class Enum>
struct Choice {
  std::string_view word;
  Enum value;
};
constexpr auto kBackings = std::to_array<Choice<BackingMode>>(
    {{"auto", BackingMode::automatic}, {"managed", BackingMode::managed}, {"device", BackingMode::device}});
constexpr auto kReports =
    std::to_array<Choice<ReportMode>>({{"virtual", ReportMode::virtual_memory}, {"real", ReportMode::real}});
constexpr auto kModes = std::to_array<Choice<ModeName>>({{"off", ModeName::off},
                                                         {"demand", ModeName::demand},
                                                         {"alloc_prefetch", ModeName::alloc_prefetch},
                                                         {"arrival", ModeName::arrival},
                                                         {"adaptive", ModeName::adaptive}});
constexpr auto kSwitches = std::to_array<Choice<Switch>>({{"auto", Switch::automatic}, {"off", Switch::off}});
constexpr auto kSwitchWords = std::to_array<Choice<bool>>({{"true", true},
                                                           {"false", false},
                                                           {"1", true},
                                                           {"0", false},
                                                           {"on", true},
                                                           {"off", false},
                                                           {"yes", true},
                                                           {"no", false}});
constexpr auto kLevels =
    std::to_array<Choice<int>>({{"off", 0}, {"error", 1}, {"warning", 2}, {"info", 3}, {"debug", 4}});

// The remedy names every choice, and the nearest one first if there is one.
template <class Choices>
SettingProblem not_a_choice(std::string_view text, const Choices& choices, std::string_view listed) {
  if (text.empty()) return problem(text, "the value is empty", "write one of: " + std::string(listed));
  std::vector<std::string_view> words;
  for (const auto& choice : choices) words.push_back(choice.word);
  const auto guess = nearest(text, words);
  const std::string all = "one of: " + std::string(listed);
  return problem(text, "is not " + all, guess ? "did you mean " + quoted(*guess) + "?" : "write one of them");
}

template <class Enum, class Choices>
Result choose(Enum& out, std::string_view text, const Choices& choices, std::string_view listed) {
  text = trimmed(text);
  for (const auto& choice : choices) {
    if (choice.word == text) {
      out = choice.value;
      return std::nullopt;
    }
  }
  return not_a_choice(text, choices, listed);
}

template <class Enum, class Choices>
std::string chosen(Enum value, const Choices& choices) {
  for (const auto& choice : choices) {
    if (choice.value == value) return std::string(choice.word);
  }
  return {};
}

Result read_number(std::uint32_t& out, std::string_view text, std::uint32_t least, std::uint32_t most) {
  text = trimmed(text);
  const std::string remedy = "write a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (text.empty()) return problem(text, "the value is empty", remedy);
  const DecimalReading reading = read_decimal(text);
  if (reading.fault != SizeFault::none) return problem(text, describe(reading.fault, "number"), remedy);
  if (text.find('.') != std::string_view::npos) return problem(text, "is not a whole number", remedy);
  if (reading.value < least || reading.value > most) {
    return problem(text, reading.value < least ? "is too small" : "is too large", remedy);
  }
  out = static_cast<std::uint32_t>(reading.value);
  return std::nullopt;
}

// A size, or nothing for no limit.
Result read_most_bytes(Bytes& out, std::string_view text, Bytes least) {
  text = trimmed(text);
  out = Bytes();
  if (text.empty()) return std::nullopt;
  const SizeReading reading = read_size(text);
  if (reading.fault != SizeFault::none) {
    return problem(text, describe(reading.fault, "size"),
                   size_remedy(text, "write a size such as 2GiB, or nothing for no limit"));
  }
  const Bytes bytes = std::get<Bytes>(reading.value.value);
  if (bytes < least) {
    return problem(text, "is below " + format_bytes(least), "write at least " + write_bytes(least) + ", with its unit");
  }
  out = bytes;
  return std::nullopt;
}

Result read_share(double& out, std::string_view text) {
  const SizeReading reading = read_percent(text);
  if (reading.fault != SizeFault::none) {
    return problem(trimmed(text), describe(reading.fault, "share"), "write a share from 0% to 100%, such as 5%");
  }
  out = std::get<double>(reading.value.value);
  return std::nullopt;
}

// A misspelt placeholder would give every process of a job the same file.
Result read_path(std::string& out, std::string_view text) {
  constexpr std::string_view kRemedy = "use %p (process), %t (start time), %h (host), %r (rank) or %% (a percent sign)";
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 2)) {
    const std::string_view placeholder = text.substr(at, 2);
    if (placeholder.size() < 2 || std::string_view("pthr%").find(placeholder[1]) == std::string_view::npos) {
      return problem(text, "has the unknown placeholder " + quoted(placeholder), std::string(kRemedy));
    }
  }
  if (text.find('\0') != std::string_view::npos) {
    return problem(text, "is not a path: it has a zero byte", "write a path such as spillway.%p.swt");
  }
  out = std::string(text);
  return std::nullopt;
}

constexpr std::string_view kBackingList = "auto, managed, device";
constexpr std::string_view kReportList = "virtual, real";
constexpr std::string_view kModeList = "off, demand, alloc_prefetch, arrival, adaptive";
constexpr std::string_view kSwitchList = "auto, off";
constexpr std::string_view kLevelList = "off, error, warning, info, debug";

constexpr auto kTable = std::to_array<SettingRow>({
    SettingRow{
        "memory.device_budget", "device_budget", SettingKind::size_or_share, "size or share", "",
        "2MiB or more, or 1% to 100% of the device's memory",
        "Device memory that this process may fill; unset, what is free when the device is first seen, less a reserve.",
        [](Settings& s, std::string_view text) {
          SizeOrShare value{Bytes()};
          Result bad = read_into(value, text, kChunk, 1.0);
          if (!bad) s.device_budget = value;
          return bad;
        },
        [](const Settings& s) { return s.device_budget ? size_text(*s.device_budget) : std::string(); }},
    SettingRow{"memory.backing", "backing", SettingKind::choice, "one of: auto, managed, device", "auto", kBackingList,
               "What large allocations are made of: auto takes managed memory once a run is expected to spill; managed "
               "and device force either.",
               [](Settings& s, std::string_view text) { return choose(s.backing, text, kBackings, kBackingList); },
               [](const Settings& s) { return chosen(s.backing, kBackings); }},
    SettingRow{"memory.host_budget", "host_budget", SettingKind::size_or_share, "size or share", "90%",
               "any size, or 0% to 100% of the host memory that is available",
               "Host memory that spilled bytes may fill; the cgroup's limit and free memory are counted as well.",
               [](Settings& s, std::string_view text) { return read_into(s.host_budget, text, Bytes(), 0.0); },
               [](const Settings& s) { return size_text(s.host_budget); }},
    SettingRow{"memory.window", "window", SettingKind::size_or_share, "size or share", "100%",
               "any size, or 0% to 100% of the device budget",
               "The most of the device budget that managed pages may fill; never more than plain memory leaves.",
               [](Settings& s, std::string_view text) { return read_into(s.window, text, Bytes(), 0.0); },
               [](const Settings& s) { return size_text(s.window); }},
    SettingRow{"memory.plain_share", "plain_share", SettingKind::size_or_share, "size or share", "25%",
               "any size, or 0% to 100% of the device budget",
               "With backing auto, how much stays plain device memory while nothing says that the run will spill.",
               [](Settings& s, std::string_view text) { return read_into(s.plain_share, text, Bytes(), 0.0); },
               [](const Settings& s) { return size_text(s.plain_share); }},
    SettingRow{
        "memory.report", "report", SettingKind::choice, "one of: virtual, real", "virtual", kReportList,
        "What cuMemGetInfo tells the program: virtual counts device and host budget together, real only device memory.",
        [](Settings& s, std::string_view text) { return choose(s.report, text, kReports, kReportList); },
        [](const Settings& s) { return chosen(s.report, kReports); }},
    SettingRow{
        "memory.oom_first", "oom_first", SettingKind::boolean, "true or false", "false", "true, false",
        "Fail once with out-of-memory at the device budget, so that the program drops its caches before anything "
        "spills.",
        [](Settings& s, std::string_view text) { return choose(s.oom_first, text, kSwitchWords, "true, false"); },
        [](const Settings& s) { return std::string(s.oom_first ? "true" : "false"); }},
    SettingRow{
        "memory.spill_vmm", "spill_vmm", SettingKind::choice, "one of: auto, off", "auto", kSwitchList,
        "Map-style memory (cuMemCreate; PyTorch's expandable_segments): auto puts it on the host, for good, where the "
        "device budget is used up; off refuses it there.",
        [](Settings& s, std::string_view text) { return choose(s.spill_vmm, text, kSwitches, kSwitchList); },
        [](const Settings& s) { return chosen(s.spill_vmm, kSwitches); }},
    SettingRow{"memory.spill_pools", "spill_pools", SettingKind::choice, "one of: auto, off", "auto", kSwitchList,
               "Stream-ordered memory (cuMemAllocAsync and pools): auto serves requests of 2 MiB and more from managed "
               "memory in "
               "a run that may spill; off leaves all to the driver's pools, which end at the device budget.",
               [](Settings& s, std::string_view text) { return choose(s.spill_pools, text, kSwitches, kSwitchList); },
               [](const Settings& s) { return chosen(s.spill_pools, kSwitches); }},
    SettingRow{"policy.mode", "mode", SettingKind::choice, "one of: off, demand, alloc_prefetch, arrival, adaptive",
               "adaptive", kModeList,
               "How placement is decided: adaptive learns; off does nothing; demand, alloc_prefetch and arrival are "
               "the baselines to compare with.",
               [](Settings& s, std::string_view text) { return choose(s.mode, text, kModes, kModeList); },
               [](const Settings& s) { return chosen(s.mode, kModes); }},
    SettingRow{"policy.iteration_lookahead", "iteration_lookahead", SettingKind::number, "number", "2", "0 to 16",
               "Over how many iterations streaming is planned: memory takes turns in HBM within one iteration, or "
               "within two, 4, "
               "8 or 16, up to this, if that is how it repeats. 0: nothing takes turns.",
               [](Settings& s, std::string_view text) { return read_number(s.iteration_lookahead, text, 0, 16); },
               [](const Settings& s) { return std::to_string(s.iteration_lookahead); }},
    SettingRow{"telemetry.cupti", "cupti", SettingKind::choice, "one of: auto, off", "auto", kSwitchList,
               "Kernel times and page traffic through CUPTI: auto uses it while nobody else in the process does; off "
               "never opens it.",
               [](Settings& s, std::string_view text) { return choose(s.cupti, text, kSwitches, kSwitchList); },
               [](const Settings& s) { return chosen(s.cupti, kSwitches); }},
    SettingRow{"telemetry.events", "telemetry_events", SettingKind::choice, "one of: auto, off", "auto", kSwitchList,
               "Kernel times through the driver's events while there is no CUPTI or somebody else uses it: auto times "
               "some of a window's launches so; off never records an event for that.",
               [](Settings& s, std::string_view text) { return choose(s.events, text, kSwitches, kSwitchList); },
               [](const Settings& s) { return chosen(s.events, kSwitches); }},
    SettingRow{"telemetry.sample", "telemetry_sample", SettingKind::percent, "share", "5%", "0% to 100%",
               "Share of launches whose kernels are timed and whose page traffic is counted, in windows of about an "
               "iteration; a run has one at least, so of a short run it is more.",
               [](Settings& s, std::string_view text) { return read_share(s.telemetry_sample, text); },
               [](const Settings& s) { return percent_text(s.telemetry_sample); }},
    SettingRow{
        "telemetry.probes", "probes", SettingKind::choice, "one of: auto, off", "auto", kSwitchList,
        "Chunks of sparse ranges (caches, embeddings) left unmapped on the host, to learn by their faults what is "
        "in use: auto does so while CUPTI tells of them; off never does.",
        [](Settings& s, std::string_view text) { return choose(s.probes, text, kSwitches, kSwitchList); },
        [](const Settings& s) { return chosen(s.probes, kSwitches); }},
    SettingRow{"trace.path", "trace_path", SettingKind::text, "text", "",
               "a path; %p process, %t start time, %h host, %r rank, %% percent",
               "File that the trace is written to; empty, none is.",
               [](Settings& s, std::string_view text) { return read_path(s.trace_path, text); },
               [](const Settings& s) { return s.trace_path; }, "trace"},
    SettingRow{
        "trace.max_size", "trace_max_size", SettingKind::text, "size", "", "1MiB or more; empty, no limit",
        "Size at which a trace file is full: what comes later is counted, not written.",
        [](Settings& s, std::string_view text) { return read_most_bytes(s.trace_max_size, text, 1_MiB); },
        [](const Settings& s) { return s.trace_max_size == Bytes() ? std::string() : write_bytes(s.trace_max_size); }},
    SettingRow{
        "log.level", "log_level", SettingKind::choice, "one of: off, error, warning, info, debug", "info", kLevelList,
        "How much is said on standard error. That a trace got another name or stopped is said at all levels but off.",
        [](Settings& s, std::string_view text) {
          int level = 0;
          Result bad = choose(level, text, kLevels, kLevelList);
          if (!bad) s.log_level = chosen(level, kLevels);
          return bad;
        },
        [](const Settings& s) { return s.log_level; }},
});

}  // namespace

Bytes SizeOrShare::of(Bytes whole) const {
  if (const Bytes* bytes = std::get_if<Bytes>(&value)) return *bytes;
  const double percent = std::get<double>(value);
  if (!(percent > 0)) return Bytes();
  if (percent >= 100) return whole;
  return Bytes(static_cast<std::uint64_t>(static_cast<double>(whole.count()) * (percent / 100.0)));
}

std::string SettingProblem::sentence() const {
  std::string out = place.empty() ? "" : place + ": ";
  if (!value.empty()) out += quoted(value) + " ";
  out += problem;
  if (!remedy.empty()) out += "; " + remedy;
  return out;
}

std::string SettingRow::environment_name() const {
  std::string name = "SPILLWAY_";
  for (const char c : short_name) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::string SettingRow::flag_name() const {
  std::string name = "--" + std::string(flag.empty() ? short_name : flag);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string SettingRow::help() const {
  const bool listed = kind == SettingKind::choice || kind == SettingKind::boolean;
  return std::string(sentence) + " (" + (listed || range.empty() ? "" : std::string(range) + "; ") +
         environment_name() + "; default: " + std::string(default_text.empty() ? "none" : default_text) + ")";
}

std::span<const SettingRow> setting_table() { return kTable; }

const SettingRow* find_setting(std::string_view key) {
  const auto* row = std::find_if(kTable.begin(), kTable.end(), [&](const SettingRow& r) { return r.key == key; });
  return row == kTable.end() ? nullptr : row;
}

std::optional<SettingProblem> set_setting(Settings& settings, std::string_view key, std::string_view text,
                                          std::string_view place) {
  if (const SettingRow* row = find_setting(key)) {
    Result bad = row->set(settings, text);
    if (bad) bad->place = std::string(place);
    return bad;
  }
  std::vector<std::string_view> keys;
  for (const SettingRow& row : kTable) keys.push_back(row.key);
  const auto guess = nearest(key, keys);
  return SettingProblem{std::string(place), std::string(key), "is not a setting",
                        guess ? "did you mean " + quoted(*guess) + "?" : "see the policy reference for all of them"};
}

std::vector<SettingProblem> settings_from_environment(Settings& settings,
                                                      const std::function<const char*(const char*)>& look_up) {
  std::vector<SettingProblem> problems;
  for (const SettingRow& row : kTable) {
    const std::string name = row.environment_name();
    const char* text = look_up(name.c_str());
    if (text == nullptr) continue;
    if (auto bad = set_setting(settings, row.key, text, name)) problems.push_back(std::move(*bad));
  }
  return problems;
}

std::vector<SettingProblem> unknown_environment_names(std::span<const std::string_view> names) {
  constexpr std::string_view kPrefix = "SPILLWAY_";
  std::vector<std::string> known = {std::string(kPolicyFileEnvironmentName)};
  for (const SettingRow& row : kTable) known.push_back(row.environment_name());
  const std::vector<std::string_view> known_views(known.begin(), known.end());
  std::vector<SettingProblem> problems;
  for (const std::string_view name : names) {
    if (!name.starts_with(kPrefix) || name.starts_with("SPILLWAY_SIMULATED_")) continue;
    if (std::find(known_views.begin(), known_views.end(), name) != known_views.end()) continue;
    // Compared without the prefix, which would make every name look near to every other.
    std::vector<std::string_view> endings;
    for (const std::string_view candidate : known_views) endings.push_back(candidate.substr(kPrefix.size()));
    const auto guess = nearest(name.substr(kPrefix.size()), endings);
    problems.push_back({std::string(name), "", "is not a setting of Spillway",
                        guess ? "did you mean " + std::string(kPrefix) + std::string(*guess) + "?"
                              : "unset it; the policy reference lists the names"});
  }
  return problems;
}

}  // namespace spillway::policy
