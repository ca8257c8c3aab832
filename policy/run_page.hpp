// What a running process shows of itself to `spillway top`: the page that the shim keeps in shared memory.
//
// It is an anonymous file of this name, open in the process (/proc/PID/fd), sealed to its size and gone with the
// process. One writer; `sequence` is odd while it writes. A reader takes the whole, and takes it again if `sequence`
// was odd or is another one afterwards. It trusts nothing: counts may be beyond the arrays, texts without an end.
//
// Plain memory of fixed size: sizes are bytes, times nanoseconds since the process's first use of CUDA. Fields change
// only with `version`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace spillway::policy {

inline constexpr char kRunPageName[] = "spillway-run-page";
inline constexpr std::array<char, 8> kRunPageMagic = {'S', 'P', 'W', 'Y', 'P', 'A', 'G', 'E'};
inline constexpr std::uint32_t kRunPageVersion = 1;

template <std::size_t Size>
using PageText = std::array<char, Size>;  // zero-terminated unless cut

struct RunPageDevice {
  std::uint32_t device = 0;
  std::uint32_t zero = 0;
  PageText<64> name{};
  std::uint64_t budget = 0;  // 0 in mode off, and before the program has used the device
  std::uint64_t plain = 0, reserved = 0, managed = 0, resident = 0, on_host = 0;
  std::uint64_t resident_peak = 0;
  std::uint64_t moved_in = 0, moved_out = 0;
  double in_per_second = 0, out_per_second = 0;  // over the last two seconds
};

struct RunPageAllocation {
  std::uint32_t allocation = 0;
  std::uint16_t span_class = 0;
  std::uint16_t device = 0;
  std::uint64_t bytes = 0, in_hbm = 0, on_host = 0;
  std::uint64_t crossed = 0;  // the link, both ways
  PageText<96> caller{};      // library that asked for it
};

struct RunPage {
  std::array<char, 8> magic = kRunPageMagic;
  std::uint32_t version = kRunPageVersion;
  std::uint32_t size = 0;  // of all this
  std::uint64_t sequence = 0;
  std::uint64_t pid = 0;  // as the process sees itself
  PageText<256> program{}, host{};
  PageText<32> rank{}, mode{};
  PageText<32> ended_by{};  // empty while it runs
  std::int64_t time = 0;
  std::int64_t last_event = 0;  // when something last happened
  std::uint64_t launches = 0;
  double launches_per_second = 0;     // over the last two seconds
  std::uint64_t iteration = 0;        // as the policy counts them; 0: none was found
  std::uint64_t iteration_began = 0;  // launches before it
  std::int64_t iteration_took = 0;    // the last whole one; 0: none
  std::uint64_t dropped_events = 0;
  std::uint32_t device_count = 0;
  std::uint32_t allocation_count = 0;
  std::array<RunPageDevice, 16> devices{};
  std::array<RunPageAllocation, 64> allocations{};  // those first that crossed most
};
static_assert(std::is_trivially_copyable_v<RunPage> && sizeof(RunPage) % 8 == 0);

}  // namespace spillway::policy
