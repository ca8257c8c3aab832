// The part of RunFollower that follows launches: what a shape's pointers reach, and whether that is on the host.
#include <algorithm>

#include "tools/chunk_span.hpp"
#include "tools/run_follower.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

constexpr std::size_t kShapes = std::size_t{1} << 17;
constexpr std::uint64_t kMostPointers = std::uint64_t{2} << 20;
constexpr std::size_t kMostCuts = 16384;  // of one allocation
constexpr std::size_t kLatest = std::size_t{1} << 16;

const std::vector<std::uint64_t> kNoPointers;

// Of the allocation's bytes begin to end, those on the host.
Bytes bytes_on_host(const FollowedAllocation& allocation, std::uint64_t begin, std::uint64_t end) {
  if (allocation.on_host == Bytes()) return {};
  if (allocation.on_host == allocation.bytes) return Bytes(end - begin);
  const ChunkSpan span(allocation, begin, end);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = span.first; i < span.end; ++i) {
    if (allocation.chunks[i].at != Placement::host) continue;
    bytes += std::min(end, (i + 1) * kChunk.count()) - std::max(begin, i * kChunk.count());
  }
  return Bytes(bytes);
}

}  // namespace

FunctionId RunFollower::function_of(LaunchShapeId id) const {
  const std::size_t slot = id.value % kShapes;
  return slot < shapes_.size() && shapes_[slot].id == id ? shapes_[slot].function : FunctionId();
}

const std::vector<std::uint64_t>& RunFollower::pointers_of(LaunchShapeId id) const {
  const std::size_t slot = id.value % kShapes;
  return slot < shapes_.size() && shapes_[slot].id == id ? shapes_[slot].pointers : kNoPointers;
}

FunctionId RunFollower::function_at(LaunchNumber launch) const {
  if (!launch || launch.value > launches_ || launch.value + kLatest <= launches_) return {};
  return {latest_[launch.value % kLatest]};
}

void RunFollower::see_shape(const LaunchShapeSeen& seen) {
  const std::size_t slot = seen.shape.value % kShapes;
  if (shapes_.size() <= slot) shapes_.resize(slot + 1);
  Shape& shape = shapes_[slot];
  pointers_ -= shape.pointers.size();
  shape = {};
  shape.id = seen.shape;
  if (seen.function.value < kMostFunctions) shape.function = seen.function;
  shape.key = launch_key(seen.function, seen.threads);
  if (pointers_ + seen.arguments.size() > kMostPointers) return;  // such launches touch nothing that we know of
  for (const PointerArgument& argument : seen.arguments) shape.pointers.push_back(argument.address.value);
  std::sort(shape.pointers.begin(), shape.pointers.end());
  shape.pointers.erase(std::unique(shape.pointers.begin(), shape.pointers.end()), shape.pointers.end());
  shape.pointers.shrink_to_fit();
  pointers_ += shape.pointers.size();
}

// The shape with its uses as they are now; nullptr if it is not known (any more).
RunFollower::Shape* RunFollower::resolved(LaunchShapeId id) {
  const std::size_t slot = id.value % kShapes;
  if (slot >= shapes_.size() || shapes_[slot].id != id) return nullptr;
  Shape& shape = shapes_[slot];
  if (shape.resolved == layout_) return &shape;
  shape.uses.clear();
  for (const std::uint64_t address : shape.pointers) {
    FollowedAllocation* const allocation = live_at(address);
    if (allocation == nullptr) continue;
    const std::uint64_t offset = address - allocation->address.value;
    auto cut = std::lower_bound(allocation->cuts.begin(), allocation->cuts.end(), offset);
    if ((cut == allocation->cuts.end() || *cut != offset) && allocation->cuts.size() < kMostCuts) {
      cut = allocation->cuts.insert(cut, offset);
      ++layout_;  // what reached over this place reaches no further now
    }
    shape.uses.push_back({allocation->id, allocation, offset, 0, {}});
  }
  for (Use& use : shape.uses) {
    const std::vector<std::uint64_t>& cuts = use.of->cuts;
    const auto next = std::upper_bound(cuts.begin(), cuts.end(), use.begin);
    use.end = next == cuts.end() ? use.of->bytes.count() : *next;
  }
  shape.resolved = layout_;
  shape.touched = shape.priced = 0;
  return &shape;
}

void RunFollower::touch(FollowedAllocation& allocation, std::uint64_t begin, std::uint64_t end) {
  const ChunkSpan span(allocation, begin, end);
  for (std::uint64_t i = span.first; i < span.end; ++i) allocation.chunks[i].untouched = false;
}

void RunFollower::touch(AllocationId id, std::uint64_t begin, std::uint64_t end) {
  if (const auto found = live_.find(id); found != live_.end()) touch(found->second, begin, end);
}

void RunFollower::touch_address(Address address, Bytes bytes) {
  const FollowedAllocation* const allocation = address ? live_at(address.value) : nullptr;
  if (allocation == nullptr) return;
  const Bytes offset(address.value - allocation->address.value);
  touch(allocation->id, offset.count(), end_of(offset, bytes));
}

// A long run moves something between any two launches: only what lies in an allocation that has changed is looked at.
void RunFollower::launch(Shape& shape) {
  if (shape.touched != arrivals_) {
    for (const Use& use : shape.uses) {
      if (use.of->arrivals > shape.touched) touch(*use.of, use.begin, use.end);
    }
    shape.touched = arrivals_;
  }
  if (shape.priced != placements_) {
    shape.on_host = {};
    for (Use& use : shape.uses) {
      if (use.of->placements > shape.priced) use.on_host = bytes_on_host(*use.of, use.begin, use.end);
      shape.on_host += use.on_host;
    }
    shape.priced = placements_;
  }
  if (shape.on_host == Bytes()) return;
  for (const Use& use : shape.uses) use.of->host_bytes += use.on_host;
  host_bytes_ += shape.on_host;
}

void RunFollower::count_launch(FunctionId function, LaunchKey key, LaunchShapeId shape) {
  ++launches_;
  launched_ = function;
  if (latest_.empty()) latest_.resize(kLatest);
  latest_[launches_ % kLatest] = function.value;
  if (what_ == Follows::memory) return;
  iteration_ended_ = iterations_.launched(
      key, shape, [this](LaunchShapeId id) -> const std::vector<std::uint64_t>& { return pointers_of(id); });
  if (iteration_ended_) iteration_began_ = launches_;
}

IterationsSeen RunFollower::iterations() const {
  const std::uint64_t number = iteration();
  if (number == 0) return {};
  return {number - 1, launches_ > iteration_began_ ? number : 0};
}

}  // namespace spillway::tools
