#include "policy/kernel_matching.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace spillway::policy {
namespace {

using LaunchLane = std::vector<const WatchedLaunch*>;
using KernelLane = std::vector<const SeenKernel*>;

struct Fit {
  const LaunchLane* lane = nullptr;
  std::size_t offset = 0;
};

// The offsets at which nothing that must be there is left out.
struct Offsets {
  std::size_t first = 0;
  std::size_t last = 0;  // included
  bool none = false;
};

Offsets offsets_of(const LaunchLane& launches, std::size_t kernels) {
  if (kernels == 0 || kernels > launches.size()) return {0, 0, true};
  std::size_t first = 0;
  std::size_t last = launches.size() - kernels;
  const auto certain = [](const WatchedLaunch* launch) { return launch->recorded == Recorded::certainly; };
  const auto begin = std::find_if(launches.begin(), launches.end(), certain);
  if (begin != launches.end()) {
    const auto end = std::find_if(launches.rbegin(), launches.rend(), certain).base();
    const auto needed = static_cast<std::size_t>(end - launches.begin());
    if (needed > kernels) first = needed - kernels;
    last = std::min(last, static_cast<std::size_t>(begin - launches.begin()));
  }
  return {first, last, first > last};
}

bool fits(const LaunchLane& launches, const KernelLane& kernels, std::size_t offset) {
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (launches[offset + i]->key != kernels[i]->key) return false;
  }
  return true;
}

bool same_shapes(const Fit& a, const Fit& b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if ((*a.lane)[a.offset + i]->shape != (*b.lane)[b.offset + i]->shape) return false;
  }
  return true;
}

// The only way in which the records fit, if there is one.
std::optional<Fit> only_fit(const std::map<StreamId, LaunchLane>& lanes, DeviceStreamId stream,
                            const KernelLane& kernels) {
  std::optional<Fit> found;
  for (const auto& [of, launches] : lanes) {
    if ((stream == kGraphDeviceLane) != (of == kGraphLane)) continue;
    const Offsets offsets = offsets_of(launches, kernels.size());
    if (offsets.none) continue;
    for (std::size_t offset = offsets.first; offset <= offsets.last; ++offset) {
      if (!fits(launches, kernels, offset)) continue;
      const Fit fit{&launches, offset};
      if (!found) found = fit;
      if (!same_shapes(*found, fit, kernels.size())) return std::nullopt;
    }
  }
  return found;
}

}  // namespace

KernelKey name_key(std::string_view mangled_name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : mangled_name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return {hash};
}

KernelKey kernel_key(KernelKey name, std::uint64_t threads) {
  const std::uint64_t mixed = (name.value ^ threads) * 0x9E3779B97F4A7C15ULL;
  return {mixed ^ (mixed >> 32U)};
}

KernelKey graph_key(std::uint64_t kernels) { return kernel_key(name_key("(graph)"), kernels); }

void judge_launches(std::vector<WatchedLaunch>& launches, const WatchMarks& marks) {
  struct Lane {
    WatchedLaunch* latest = nullptr;  // kept so far
    bool began = false;               // one was seen after `on`
    bool ended = false;               // one was seen after `off`
  };
  std::map<StreamId, Lane> lanes;
  for (WatchedLaunch& launch : launches) {
    Lane& lane = lanes[launch.stream];
    launch.recorded = Recorded::no;
    if (launch.time < marks.before_on) {
      // The last of these may have been told before its call was made.
      if (lane.latest != nullptr) lane.latest->recorded = Recorded::no;
      launch.recorded = Recorded::perhaps;
    } else if (launch.time >= marks.before_off) {
      if (lane.latest != nullptr && !lane.ended && lane.latest->recorded == Recorded::certainly) {
        lane.latest->recorded = Recorded::perhaps;
      }
      // Of those after the end only the first can have been called before it.
      launch.recorded = launch.time > marks.off && lane.ended ? Recorded::no : Recorded::perhaps;
      lane.ended = lane.ended || launch.time > marks.off;
      if (launch.recorded == Recorded::no) continue;
    } else if (launch.time <= marks.on || !lane.began) {
      launch.recorded = Recorded::perhaps;
      lane.began = launch.time > marks.on;
    } else {
      launch.recorded = Recorded::certainly;
    }
    lane.latest = &launch;
  }
  for (auto& [stream, lane] : lanes) {
    if (lane.latest != nullptr && lane.latest->recorded == Recorded::certainly) {
      lane.latest->recorded = Recorded::perhaps;
    }
  }
  std::erase_if(launches, [](const WatchedLaunch& launch) { return launch.recorded == Recorded::no; });
}

KernelMatch match_kernels(std::span<const WatchedLaunch> launches, std::span<const SeenKernel> kernels) {
  std::map<StreamId, LaunchLane> launch_lanes;
  std::map<DeviceStreamId, KernelLane> kernel_lanes;
  KernelMatch match;
  for (const WatchedLaunch& launch : launches) {
    launch_lanes[launch.stream].push_back(&launch);
    match.certain += launch.recorded == Recorded::certainly ? 1 : 0;
  }
  for (const SeenKernel& kernel : kernels) kernel_lanes[kernel.stream].push_back(&kernel);
  std::map<const LaunchLane*, std::size_t> claims;
  std::vector<std::pair<Fit, const KernelLane*>> believed;
  for (auto& [stream, lane] : kernel_lanes) {
    std::stable_sort(lane.begin(), lane.end(),
                     [](const SeenKernel* a, const SeenKernel* b) { return a->order < b->order; });
    if (const auto fit = only_fit(launch_lanes, stream, lane)) {
      believed.emplace_back(*fit, &lane);
      ++claims[fit->lane];
    } else {
      match.lost += lane.size();
    }
  }
  for (const auto& [fit, lane] : believed) {
    if (claims[fit.lane] > 1) {  // two streams of the device cannot be one of the program's
      match.lost += lane->size();
      continue;
    }
    for (std::size_t i = 0; i < lane->size(); ++i) {
      const WatchedLaunch& launch = *(*fit.lane)[fit.offset + i];
      match.certain_timed += launch.recorded == Recorded::certainly ? 1 : 0;
      const SeenKernel& kernel = *(*lane)[i];
      if (kernel.duration > Nanoseconds()) match.times.push_back({launch.launch, kernel.start, kernel.duration});
    }
  }
  std::sort(match.times.begin(), match.times.end(),
            [](const KernelTimed& a, const KernelTimed& b) { return a.launch < b.launch; });
  return match;
}

}  // namespace spillway::policy
