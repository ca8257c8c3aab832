// The file in which `spillway probe` keeps what one device costs: TOML, one file a device, named by its UUID. The tools
// write it, the shim and the tools read it. Text in and out; nothing here touches a disk.
//
// A file is good or it is left alone as a whole: half a table, or another machine's, would be worse than the built-in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/cost_table.hpp"

namespace spillway::policy {

struct ProbedDevice {
  std::string uuid;    // uuid_text
  std::string name;    // "NVIDIA H200"
  std::string driver;  // CUDA version of the driver: "13.0"
  friend bool operator==(const ProbedDevice&, const ProbedDevice&) = default;
};

// 32 hexadecimal digits.
std::string uuid_text(const std::array<std::uint8_t, 16>& uuid);
// "costs-<uuid>.toml", in the folder that cost_folder names.
std::string cost_file_name(std::string_view uuid);
// "$XDG_CACHE_HOME/spillway", else "$HOME/.cache/spillway"; empty if neither is an absolute path. Null: not set.
std::string cost_folder(const char* xdg_cache_home, const char* home);

inline constexpr std::size_t kLongestCostFile = 64UL * 1024;

struct CostFile {
  ProbedDevice device;
  std::string build;     // Spillway's version that measured
  std::string measured;  // when, RFC 3339
  CostTable costs;
};

std::string write_cost_file(const CostFile& file);

// Nothing if the text is no such file, has a mistake, or is of another device or driver; `why` is then half a sentence
// with the remedy. Costs that were not measured are the built-in ones.
std::optional<CostTable> read_cost_file(std::string_view text, const ProbedDevice& device, std::string& why);

// The same half of a sentence for a file that the system does not let us read.
std::string unread_cost_file(std::string_view reason);

}  // namespace spillway::policy
