// How a program allocates, from the traces of a run in which nothing was moved (mode off): what could spill and what
// could not, and what to use for it. The work behind `spillway doctor -- program`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/units.hpp"

namespace spillway::tools {

// What memory is to Spillway, by the way it was asked for.
enum class MemoryWay : std::uint8_t {
  large,         // cuMemAlloc, 2 MiB and more
  small,         // below
  mapped,        // cuMemCreate, of which host memory can take the place
  other_mapped,  // cuMemCreate otherwise
  pools,         // stream-ordered, 2 MiB and more
  other_pools,   // smaller, or inside a capture
  arrays,
  managed,   // by the program itself
  imported,  // of another process or interface
};
inline constexpr std::size_t kMemoryWays = 9;

struct WayUsed {
  std::uint64_t count = 0;
  policy::Bytes bytes;  // in all
  policy::Bytes most;   // at a time
};

// A request that the driver did not serve.
struct Refused {
  MemoryWay way = MemoryWay::large;
  policy::Bytes bytes;
  policy::Bytes beside;   // counted memory that lived then
  std::int32_t code = 0;  // the driver's
};

struct DeviceUsed {
  std::string name;
  policy::Bytes total;
  policy::Bytes free;  // when the program came to it
  policy::Bytes host;  // host memory that was available
  bool can_spill = false;
  std::array<WayUsed, kMemoryWays> ways;
  policy::Bytes most;                  // counted memory at a time
  policy::Bytes most_fixed;            // of it, what cannot spill
  policy::Bytes plain_peak;            // what that takes of the card, in the driver's blocks (policy/plain_memory.hpp)
  std::optional<Refused> refused;      // the first for want of memory; else the first
  [[nodiscard]] bool spills() const;   // something of what was asked for can
  [[nodiscard]] bool ran_out() const;  // the driver refused memory
  [[nodiscard]] bool rescued() const;  // which would have spilled, and have had room on the host
};

struct ProgramUse {
  bool stopped = false;         // at the time limit: what it does later was not seen
  std::uint64_t processes = 0;  // that called the driver
  std::uint64_t launches = 0;
  std::uint64_t graph_launches = 0;
  std::map<std::uint32_t, DeviceUsed> devices;  // those that memory was asked of
  std::set<std::string> callers;                // files that asked for memory
  std::set<std::string> calls;                  // functions of the driver
  bool torch = false;                           // by its kernels
  bool cupti_taken = false;                     // by the program or a profiler
  std::vector<std::string> problems;            // traces that could not be read
};

// Adds up a trace; what cannot be read becomes a problem.
void add_trace(ProgramUse& use, const std::string& path);

// "shared (libcudart.so.13), for /usr/bin/app", "static, for ...", "none: ... calls the driver"; one for each file that
// asked for memory.
std::vector<std::string> runtimes_of(const ProgramUse& use);

struct Advice {
  std::string setting;  // a flag, a variable, a rule; empty: only to know
  std::string why;
};
std::vector<Advice> advice_for(const ProgramUse& use);

// "64 MiB (cudaMalloc, 2 MiB and more) beside 1.5 GiB in use".
std::string refused_text(const Refused& refused);

std::string report_text(const ProgramUse& use, std::size_t width = 0);
nlohmann::ordered_json report_json(const ProgramUse& use);

}  // namespace spillway::tools
