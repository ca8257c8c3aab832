// The exchange of blocks in use on the host for blocks that have been in HBM longest.
#include <algorithm>
#include <tuple>
#include <utility>

#include "policy/modes/sparse_ranges.hpp"

namespace spillway::policy {
namespace {

constexpr Bytes kFullCall = 32_MiB;
constexpr std::size_t kMostOpen = 4;       // each way
constexpr std::uint64_t kSparseShare = 8;  // of the window: more is not moved at a time
// A block is left alone for so many epochs after it came in, and twice as long after each mistake.
constexpr std::uint32_t kStay = 2;
constexpr std::uint32_t kMostStayBits = 10;

}  // namespace

// Hot blocks on the host, most to be saved first; neighbours as one.
std::vector<SparseRanges::Planned> SparseRanges::wanted() const {
  std::vector<Planned> all;
  const HeatBlock* before = nullptr;
  for (const auto& [key, block] : heat_.blocks()) {
    const bool wanted = heat_.density(block.family) == Density::sparse && heat_.hot(block) &&
                        Heat::where(block, books_.residency) == Heat::Where::host;
    if (!wanted) {
      before = nullptr;
      continue;
    }
    const double bytes = static_cast<double>(books_.residency.growth(block.range).count());
    const double gain = heat_.hot_crossings(block) * bytes / costs_.link_in * iterations_ * heat_.stays_hot(block);
    const bool joins = before != nullptr && before->range.allocation == block.range.allocation &&
                       before->range.first.value + before->range.count == block.range.first.value &&
                       all.back().range.count + block.range.count <= Heat::kMostBlock;
    if (joins) {
      all.back().range.count += block.range.count;
      all.back().gain += gain;
    } else {
      all.push_back({block.range, cause_of(block, Reason::hot), gain});
    }
    before = &block;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Planned& a, const Planned& b) { return a.gain / a.range.count > b.gain / b.range.count; });
  return all;
}

// What has been in HBM longest of sparse ranges, and long enough.
std::vector<const HeatBlock*> SparseRanges::victims(DeviceIndex device) const {
  std::vector<std::pair<std::uint32_t, const HeatBlock*>> all;
  for (const auto& [key, block] : heat_.blocks()) {
    if (heat_.density(block.family) != Density::sparse) continue;
    if (books_.residency.device(block.range.allocation) != device) continue;
    // In HBM nothing is seen, but for what others of its column tell.
    if (heat_.hot(block) || Heat::where(block, books_.residency) != Heat::Where::hbm) continue;
    const auto found = stays_.find({block.range.allocation, block.range.first.value});
    const Stay stay = found == stays_.end() ? Stay{} : found->second;
    const std::uint32_t least = kStay << std::min(stay.mistakes, kMostStayBits);
    if (stay.came != 0 && heat_.epoch() < stay.came + least) continue;
    all.emplace_back(stay.came, &block);
  }
  // What lies at the same place of equal ranges goes together.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const auto& each) {
      return std::tuple(each.second->seen != HeatBlock::Seen::cold, each.first, each.second->range.first);
    };
    return rank(a) < rank(b);
  });
  std::vector<const HeatBlock*> blocks;
  for (const auto& [came, block] : all) blocks.push_back(block);
  return blocks;
}

void SparseRanges::send_out(const HeatBlock& block) {
  const Cause cause = cause_of(block, Reason::second_chance);
  const ChunkIndex chunk{block.range.first.value + (block.range.count / 2 + block.probes) % block.range.count};
  const std::optional<ChunkIndex> probe = heat_.spoken_for(block) ? std::nullopt : std::optional(chunk);
  writer_.advise(block.range, Advice::prefer_host, cause);
  // A chunk that leaves without AccessedBy arrives unmapped; a fault on it then leaves it where it is.
  if (probe) writer_.advise({block.range.allocation, *probe, 1}, Advice::unset_accessed_by, cause);
  if (!writer_.move(block.range, Placement::host, Urgency::background, {}, {}, cause)) {
    if (probe) writer_.advise({block.range.allocation, *probe, 1}, Advice::accessed_by, cause);
    return;
  }
  open_.emplace_back(block.range, Placement::host);
  stays_[{block.range.allocation, block.range.first.value}].left = heat_.epoch();
  heat_.leave(block, probe);
}

void SparseRanges::exchange() {
  if (!open_.empty()) return;
  in_.clear();
  std::map<std::uint32_t, std::vector<const HeatBlock*>> leaving;  // by device
  std::map<std::uint32_t, std::size_t> next;
  std::map<std::uint32_t, Bytes> room, planned;
  for (const Planned& each : wanted()) {
    const DeviceIndex device = books_.residency.device(each.range.allocation);
    const auto [free, first] = room.try_emplace(device.value, books_.room(device));
    if (first) leaving[device.value] = victims(device);
    const Bytes window = books_.residency.usage(device).held() + books_.room(device);
    const Bytes bytes = books_.residency.growth(each.range);
    if ((planned[device.value] + bytes).count() > window.count() / kSparseShare && planned[device.value] > Bytes())
      continue;
    double spent = costs_.bring_in(bytes, std::max(bytes, kFullCall));
    Bytes freed = free->second;
    std::size_t out = next[device.value];
    const std::vector<const HeatBlock*>& candidates = leaving[device.value];
    for (; freed < bytes && out < candidates.size(); ++out) {
      const Bytes leaves = books_.residency.range_bytes(candidates[out]->range);
      const bool pages = books_.residency.host_growth(candidates[out]->range) == Bytes();
      spent += static_cast<double>(leaves.count()) / (pages ? costs_.move_out : costs_.move_out_first);
      freed += leaves;
    }
    const bool exchanges = out != next[device.value];
    // What leaves and was in use is missed as much, and comes back at the same cost.
    const double mistaken = exchanges ? mistaken_ : 0;
    if (freed < bytes || each.gain * (1 - mistaken) <= spent * (1 + mistaken)) continue;
    for (std::size_t i = next[device.value]; i < out; ++i) send_out(*candidates[i]);
    next[device.value] = out;
    free->second = freed - bytes;
    planned[device.value] += bytes;
    in_.push_back(each);
    heat_.earn(Nanoseconds(static_cast<std::int64_t>((each.gain - spent) * 1e9)));
  }
  pump();
}

std::size_t SparseRanges::open_to(Placement to) const {
  return static_cast<std::size_t>(
      std::count_if(open_.begin(), open_.end(), [to](const auto& move) { return move.second == to; }));
}

void SparseRanges::pump() {
  while (!in_.empty() && open_to(Placement::device) < kMostOpen) {
    const Planned& next = in_.front();
    const DeviceIndex device = books_.residency.device(next.range.allocation);
    if (books_.residency.growth(next.range) > books_.room(device)) {
      // It waits for what is leaving; if nothing is, somebody else has taken the room.
      if (open_to(Placement::host) > 0) return;
      in_.pop_front();
      continue;
    }
    coming_in(next.range, next.cause);
    writer_.advise(next.range, Advice::unset_preferred, next.cause);
    if (writer_.move(next.range, Placement::device, Urgency::background, {}, {}, next.cause))
      open_.emplace_back(next.range, Placement::device);
    in_.pop_front();
  }
}

void SparseRanges::moved(const FinishedMove& move, MoveOutcome outcome) {
  if (in_hbm(move.to) && outcome == MoveOutcome::done) {
    // Whoever brought it in.
    for (std::uint32_t index = move.range.first.value; index < move.range.first.value + move.range.count;) {
      const HeatBlock* block = heat_.block(move.range.allocation, {index});
      if (block == nullptr) {
        ++index;
        continue;
      }
      Stay& stay = stays_[{move.range.allocation, block->range.first.value}];
      stay.came = heat_.epoch();
      stay.left = 0;
      index = block->range.first.value + block->range.count;
    }
  }
  const auto ours = std::find_if(open_.begin(), open_.end(), [&move](const auto& open) {
    return open.first == move.range && open.second == move.to;
  });
  if (ours == open_.end()) return;
  open_.erase(ours);
  acted_ = true;
  if (!in_hbm(move.to) && outcome != MoveOutcome::done) {
    // It stayed, without a mapping for the day when it leaves after all.
    Cause cause;
    cause.reason = Reason::second_chance;
    cause.launch = launch_;
    coming_in(move.range, cause);
    stays_[{move.range.allocation, move.range.first.value}].left = 0;
  }
  pump();
}

}  // namespace spillway::policy
