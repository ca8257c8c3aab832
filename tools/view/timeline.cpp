#include "tools/view/timeline.hpp"

namespace spillway::tools::view {

using namespace policy;

namespace {

Json lane_levels(const TimeBins<LaneBin>& finest, Blocks& blocks) {
  Json levels = Json::array();
  for (const unsigned factor : {1U, 4U, 16U}) {
    const TimeBins<LaneBin> level = finest.coarser(factor);
    Column count, code, busy;
    for (const LaneBin& bin : level.bins()) {
      count.add(bin.count);
      code.add(bin.code);
      busy.add(bin.busy);
    }
    Json block = blocks.add({{"count", &count}, {"code", &code}, {"busy", &busy}});
    block["width"] = level.width().count();
    levels.push_back(std::move(block));
  }
  return levels;
}

}  // namespace

void LaneBin::vote(std::uint32_t other, std::uint32_t others) {
  if (votes == 0 || other == code) {
    code = other;
    votes += others;
  } else if (votes >= others) {
    votes -= others;
  } else {
    code = other;
    votes = others - votes;
  }
}

void LaneBin::merge(const LaneBin& later) {
  count += later.count;
  busy += later.busy;
  if (later.votes > 0) vote(later.code, later.votes);
}

void ItemBlocks::add(Blocks& blocks, Nanoseconds time, std::uint32_t lane, std::uint32_t code, std::uint64_t extra,
                     std::uint64_t number) {
  ++items_;
  if (bytes_ >= most_bytes_) {
    ++left_out_;
    return;
  }
  if (columns_[0].rows() == 0) {
    first_ = last_ = time;
    number_ = number;
  }
  first_ = std::min(first_, time);
  last_ = std::max(last_, time);
  columns_[0].add(time.count() / kTimeUnit);
  columns_[1].add(lane);
  columns_[2].add(code);
  columns_[3].add(extra);
  if (columns_[0].rows() == kRows) finish(blocks);
}

void ItemBlocks::finish(Blocks& blocks) {
  if (columns_[0].rows() == 0) return;
  Json block =
      blocks.add({{"time", columns_.data()}, {"lane", &columns_[1]}, {"code", &columns_[2]}, {"extra", &columns_[3]}});
  block["first"] = first_.count();
  block["last"] = last_.count();
  block["number"] = number_;
  if (last_block_) bytes_ += blocks.bytes_of(*last_block_);
  last_block_ = block["id"].get<std::size_t>();
  directory_.push_back(std::move(block));
  columns_ = {};
}

std::uint32_t Timeline::lane_of(StreamId stream) {
  if (const auto found = lane_by_stream_.find(stream); found != lane_by_stream_.end()) return found->second;
  ++streams_;
  if (lanes_.size() < kMostLanes) {
    lanes_.emplace_back();
    lanes_.back().stream = stream;
  }
  const auto lane = static_cast<std::uint32_t>(lanes_.size() - 1);
  if (streams_ < 65536) lane_by_stream_[stream] = lane;
  return lane;
}

void Timeline::launched(Nanoseconds time, StreamId stream, LaunchCode code) {
  const std::uint32_t lane = lane_of(stream);
  ++launches_;
  if (past_.empty()) past_.resize(kRemembered);
  past_[launches_ % kRemembered] = {lane, code.value};
  ++lanes_[lane].launch_count;
  LaneBin& bin = lanes_[lane].launches.at(time);
  ++bin.count;
  bin.vote(code.value, 1);
  launch_items_.add(blocks_, time, lane, code.value, 0, launches_);
}

void Timeline::timed(const KernelTimed& kernel) {
  const std::uint64_t number = kernel.launch.value;
  if (number == 0 || number > launches_ || number + kRemembered <= launches_ || kernel.duration < Nanoseconds()) return;
  const Past past = past_[number % kRemembered];
  ++lanes_[past.lane].kernel_count;
  lanes_[past.lane].kernels.spread(kernel.start, kernel.start + kernel.duration, [&](LaneBin& bin, double share) {
    bin.busy += static_cast<std::uint64_t>(share * static_cast<double>(kernel.duration.count()));
    bin.vote(past.code, 1);
  });
  ++lanes_[past.lane].kernels.at(kernel.start).count;
  const auto duration = static_cast<std::uint64_t>(kernel.duration.count() / ItemBlocks::kTimeUnit);
  kernel_items_.add(blocks_, kernel.start, past.lane, past.code, duration, number);
}

void Timeline::copied(Nanoseconds time, const Copied& copy) {
  copy_items_.add(blocks_, time, copy.stream.value, static_cast<std::uint32_t>(copy.kind), copy.bytes.count(), 0);
}

void Timeline::filled(Nanoseconds time, const Filled& fill) {
  constexpr std::uint32_t kFill = 4;  // after the last CopyKind
  copy_items_.add(blocks_, time, fill.stream.value, kFill, fill.bytes.count(), 0);
}

Json Timeline::finish() {
  launch_items_.finish(blocks_);
  kernel_items_.finish(blocks_);
  copy_items_.finish(blocks_);
  Json lanes = Json::array();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    const bool shared = i + 1 == kMostLanes && streams_ > kMostLanes;
    Json json = {{"name", shared ? "other streams" : "stream " + std::to_string(lane.stream.value)},
                 {"launches", lane.launch_count},
                 {"kernels", lane.kernel_count},
                 {"launch_levels", lane_levels(lane.launches, blocks_)}};
    json["kernel_levels"] = lane.kernel_count > 0 ? lane_levels(lane.kernels, blocks_) : Json::array();
    lanes.push_back(std::move(json));
  }
  return {{"lanes", lanes},
          {"time_unit", ItemBlocks::kTimeUnit},
          {"launches", launches_},
          {"kernels", kernel_items_.items()},
          {"launch_blocks", launch_items_.directory()},
          {"kernel_blocks", kernel_items_.directory()},
          {"copy_blocks", copy_items_.directory()},
          {"launches_left_out", launch_items_.left_out()},
          {"kernels_left_out", kernel_items_.left_out()},
          {"copies", copy_items_.items()},
          {"copies_left_out", copy_items_.left_out()}};
}

}  // namespace spillway::tools::view
