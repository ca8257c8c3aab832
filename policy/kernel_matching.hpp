// Which launch a measured kernel was: CUPTI's kernel records know no launch of ours, so both sides are laid beside each
// other, stream by stream, in order.
//
// A record is recognised by the name of its kernel and its thread count, and by its place in the sequence. A lane of
// records (one stream of the device) fits a lane of launches where every record meets a launch of the same key, in
// order and without a gap, and no launch that must have been recorded is left out. Only a lane that fits in one way,
// or in several that name the same shapes throughout, is believed; every other lane is thrown away whole. So a launch
// that we did not see, a kernel that is nobody's, or two streams that look alike cost times, and give no wrong ones. A
// window in which the profiler says that it lost records must not be brought here: amid launches of one kernel a hole
// cannot be seen.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

using KernelKey = Id<struct KernelKeyTag, std::uint64_t>;
using DeviceStreamId = Id<struct DeviceStreamTag, std::uint64_t>;  // context and stream, as the profiler numbers them

KernelKey name_key(std::string_view mangled_name);
KernelKey kernel_key(KernelKey name, std::uint64_t threads);
// Of a graph launch, by the number of kernels in it.
KernelKey graph_key(std::uint64_t kernels);
// Graph launches are one lane of their own, on both sides: their kernels run in streams that are nobody's.
inline constexpr StreamId kGraphLane{~std::uint32_t{0}};
inline constexpr DeviceStreamId kGraphDeviceLane{~std::uint64_t{0}};

// Whether the record of a launch must be there: recording was on for sure when the call was made, or perhaps.
enum class Recorded : std::uint8_t { no, perhaps, certainly };

struct WatchedLaunch {
  LaunchNumber launch;
  LaunchShapeId shape;  // of a graph launch: the graph's number
  StreamId stream;
  KernelKey key;
  Nanoseconds time;  // when the call was made or had returned, by our clock
  Recorded recorded = Recorded::no;
};

// When recording was switched on and off: before and after each call, by our clock.
struct WatchMarks {
  Nanoseconds before_on;
  Nanoseconds on;
  Nanoseconds before_off;
  Nanoseconds off;
};

// Says of each launch whether it was recorded, and drops those that cannot have been. A launch's time is somewhere
// within its call, so in each stream the ones beside a mark are uncertain.
void judge_launches(std::vector<WatchedLaunch>& launches, const WatchMarks& marks);

struct SeenKernel {
  DeviceStreamId stream;
  std::uint64_t order = 0;  // of the calls that launched them, ascending (the profiler's correlation id)
  KernelKey key;
  Nanoseconds start;
  Nanoseconds duration;  // 0: unknown
};

struct KernelMatch {
  std::vector<KernelTimed> times;  // in order of launch
  std::size_t certain = 0;         // launches that must have been recorded
  std::size_t certain_timed = 0;   // of them, those whose lane fits
  std::size_t lost = 0;            // records thrown away
  [[nodiscard]] bool complete() const { return certain == certain_timed && lost == 0; }
};

// Launches as judged, in order; kernels in any order.
KernelMatch match_kernels(std::span<const WatchedLaunch> launches, std::span<const SeenKernel> kernels);

}  // namespace spillway::policy
