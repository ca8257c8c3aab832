// The timeline's part of the page: launches per stream as the program made them, kernels where their times were
// recorded, and the program's own copies. Figures per stretch of time for the wide view, single ones in blocks for the
// near one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policy/event.hpp"
#include "tools/view/blocks.hpp"
#include "tools/view/time_bins.hpp"

namespace spillway::tools::view {

// What was launched: a shape, or a graph. One number, so that it fits a column.
struct LaunchCode {
  std::uint32_t value = 0;  // twice the id, and one more for a graph
  static LaunchCode of(policy::LaunchShapeId shape) { return {shape.value << 1U}; }
  static LaunchCode of(policy::GraphId graph) { return {graph.value << 1U | 1U}; }
};

struct LaneBin {
  std::uint32_t count = 0;
  std::uint32_t code = 0;  // what most of them were, by majority vote; exact only where one has the majority
  std::uint32_t votes = 0;
  std::uint64_t busy = 0;  // nanoseconds of kernels
  void vote(std::uint32_t other, std::uint32_t others);
  void merge(const LaneBin& later);
};

// Single things of one kind in the order they came, cut into blocks of kRows. Times are in units of kTimeUnit.
class ItemBlocks {
 public:
  static constexpr std::size_t kRows = 65536;
  static constexpr std::int64_t kTimeUnit = 32;  // ns: finer than host times mean anything, and a third fewer bytes

  // No further block is begun once those before the last take `most_bytes`: the last is still being deflated.
  explicit ItemBlocks(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}
  // `number`: of the launch, or 0. `extra`: duration in time units, or bytes.
  void add(Blocks& blocks, policy::Nanoseconds time, std::uint32_t lane, std::uint32_t code, std::uint64_t extra,
           std::uint64_t number);
  void finish(Blocks& blocks);
  [[nodiscard]] const Json& directory() const { return directory_; }  // an array
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  [[nodiscard]] std::uint64_t items() const { return items_; }

 private:
  std::array<Column, 4> columns_;  // time, lane, code, extra
  policy::Nanoseconds first_, last_;
  std::uint64_t number_ = 0;
  std::uint64_t most_bytes_;
  std::uint64_t bytes_ = 0;  // without the last block's
  std::optional<std::size_t> last_block_;
  std::uint64_t items_ = 0;
  std::uint64_t left_out_ = 0;
  Json directory_ = Json::array();
};

class Timeline {
 public:
  explicit Timeline(Blocks& blocks) : blocks_(blocks) {}
  void launched(policy::Nanoseconds time, policy::StreamId stream, LaunchCode code);
  void timed(const policy::KernelTimed& kernel);
  void copied(policy::Nanoseconds time, const policy::Copied& copy);
  void filled(policy::Nanoseconds time, const policy::Filled& fill);
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  // Lanes with levels, blocks of launches, kernels and copies.
  Json finish();

 private:
  static constexpr std::size_t kMostLanes = 12;  // the last stands for all further streams
  static constexpr std::size_t kMostBins = 32768;
  static constexpr std::size_t kRemembered = 1U << 20U;  // launches whose times may still come

  struct Lane {
    policy::StreamId stream;
    TimeBins<LaneBin> launches{kMostBins};
    TimeBins<LaneBin> kernels{kMostBins};
    std::uint64_t launch_count = 0;
    std::uint64_t kernel_count = 0;
  };
  struct Past {
    std::uint32_t lane;
    std::uint32_t code;
  };
  std::uint32_t lane_of(policy::StreamId stream);

  Blocks& blocks_;
  std::vector<Lane> lanes_;
  std::unordered_map<policy::StreamId, std::uint32_t> lane_by_stream_;
  std::vector<Past> past_;  // by launch number modulo kRemembered
  std::uint64_t launches_ = 0;
  std::uint64_t streams_ = 0;
  ItemBlocks launch_items_{std::uint64_t{16} << 20U};
  ItemBlocks kernel_items_{std::uint64_t{8} << 20U};
  ItemBlocks copy_items_{std::uint64_t{3} << 20U};
};

}  // namespace spillway::tools::view
