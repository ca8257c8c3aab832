#include "tools/run_follower.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "tools/chunk_span.hpp"
#include "tools/sane_time.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

// What is beyond is damage, not memory.
constexpr std::uint64_t kMostChunks = 1U << 22;
constexpr std::uint32_t kMostDevices = 256;

const std::string kNothing;
const std::vector<LaunchShapeId> kNoShapes;

Bytes chunk_bytes(const FollowedAllocation& allocation, std::uint64_t chunk) {
  return std::min(kChunk, allocation.bytes.saturating_minus(kChunk * chunk));
}

}  // namespace

RunFollower::RunFollower(Follows what) : what_(what) {}

const FollowedAllocation* RunFollower::find(AllocationId id) const {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : &found->second;
}

const std::string& RunFollower::name(FunctionId function) const {
  return function.value < names_.size() ? names_[function.value] : kNothing;
}

const std::string& RunFollower::library(CallerId caller) const {
  const auto found = callers_.find(caller);
  return found == callers_.end() ? kNothing : found->second;
}

const std::vector<LaunchShapeId>& RunFollower::shapes_of(GraphId graph) const {
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? kNoShapes : found->second;
}

DeviceTotals& RunFollower::device(DeviceIndex index) {
  const std::uint32_t bounded = std::min(index.value, kMostDevices - 1);
  if (devices_.size() <= bounded) devices_.resize(bounded + 1);
  return devices_[bounded];
}

FollowedAllocation* RunFollower::live_at(std::uint64_t address) {
  auto found = managed_at_.upper_bound(address);
  if (found == managed_at_.begin()) return nullptr;
  --found;
  const auto allocation = live_.find(found->second);
  if (allocation == live_.end() || address - found->first >= allocation->second.bytes.count()) return nullptr;
  return &allocation->second;
}

void RunFollower::settle(const AllocationSettled& settled) {
  const auto found = live_.find(settled.allocation);
  if (found == live_.end() || found->second.settled) return;
  if (!settled.result.ok()) {
    live_.erase(found);
    return;
  }
  FollowedAllocation& allocation = found->second;
  allocation.bytes = settled.bytes;
  allocation.address = settled.address;
  allocation.backing = settled.backing;
  allocation.settled = true;
  DeviceTotals& totals = device(allocation.device);
  if (settled.backing == Backing::device) {
    count_plain(allocation, &PlainMemory::add);
    return;
  }
  totals.managed += settled.bytes;
  const std::uint64_t chunks =
      settled.bytes.count() / kChunk.count() + (settled.bytes.count() % kChunk.count() ? 1 : 0);
  allocation.chunks.resize(std::min(chunks, kMostChunks - std::min(kMostChunks, chunks_)));
  chunks_ += allocation.chunks.size();
  allocation.cuts.push_back(0);
  ++layout_;
  if (allocation.kind != AllocationKind::stretchable) {
    managed_at_[settled.address.value] = settled.allocation;
    return;
  }
  // Host memory under a map-style handle: there for good, and without an address until it is mapped.
  FinishedMove whole;
  MoveRange range;
  range.bytes = allocation.bytes;
  range.to = Placement::host;
  place(allocation, range, whole);
}

void RunFollower::count_plain(const FollowedAllocation& allocation, void (PlainMemory::*count)(Address, Bytes)) {
  if (!counted(allocation.kind)) return;
  DeviceTotals& totals = device(allocation.device);
  plain_.resize(devices_.size());
  PlainMemory& plain = plain_[static_cast<std::size_t>(&totals - devices_.data())];
  (plain.*count)(block_address(allocation.kind, allocation.address), allocation.bytes);
  totals.plain = plain.live();
}

void RunFollower::map(const Mapped& mapped) {
  const auto found = live_.find(mapped.allocation);
  if (found == live_.end() || !found->second.settled || found->second.backing == Backing::device) return;
  FollowedAllocation& allocation = found->second;
  forget_place(allocation);
  allocation.address = mapped.address;
  if (mapped.address) managed_at_[mapped.address.value] = allocation.id;
  ++layout_;
}

// The address may have been given out again before its end was noted.
void RunFollower::forget_place(const FollowedAllocation& allocation) {
  const auto place = managed_at_.find(allocation.address.value);
  if (place != managed_at_.end() && place->second == allocation.id) managed_at_.erase(place);
}

void RunFollower::release(AllocationId id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  freed_ = std::move(found->second);
  has_freed_ = true;
  live_.erase(found);
  if (!freed_.settled) return;
  DeviceTotals& totals = device(freed_.device);
  if (freed_.backing == Backing::device) {
    count_plain(freed_, &PlainMemory::remove);
    return;
  }
  totals.managed -= freed_.bytes;
  totals.resident -= freed_.in_hbm;
  totals.on_host -= freed_.on_host;
  for (std::uint64_t i = 0; i < freed_.chunks.size(); ++i) leave(freed_, freed_.chunks[i], chunk_bytes(freed_, i));
  chunks_ -= freed_.chunks.size();
  forget_place(freed_);
  ++layout_;
}

// The chunk leaves HBM, or goes for good.
void RunFollower::leave(FollowedAllocation& allocation, FollowedChunk& chunk, Bytes size) {
  if (in_hbm(chunk.at) && chunk.moved_in && chunk.untouched) {
    if (!useless_.empty() && useless_.back().origin == chunk.origin) {
      useless_.back().bytes += size;
    } else {
      useless_.push_back({chunk.origin, allocation.id, size});
    }
  }
  chunk.moved_in = false;
}

void RunFollower::place(FollowedAllocation& allocation, const MoveRange& range, FinishedMove& move) {
  DeviceTotals& totals = device(allocation.device);
  const ChunkSpan span(allocation, range.offset.count(), end_of(range.offset, range.bytes));
  for (std::uint64_t i = span.first; i < span.end; ++i) {
    FollowedChunk& chunk = allocation.chunks[i];
    if (chunk.at == range.to) continue;
    const Bytes size = chunk_bytes(allocation, i);
    move.changed += size;
    const bool from_hbm = in_hbm(chunk.at);
    const bool to_hbm = in_hbm(range.to);
    if (chunk.at == Placement::unpopulated) move.populated += size;
    if (from_hbm && !to_hbm) leave(allocation, chunk, size);
    if (chunk.at == Placement::device && range.to == Placement::host) move.out += size;
    if (chunk.at == Placement::host && to_hbm) {
      move.in += size;
      if (chunk.was_in) move.refetched += size;
      chunk.moved_in = chunk.untouched = true;
      chunk.origin = move.origin;
    }
    if (from_hbm) allocation.in_hbm -= size, totals.resident -= size;
    if (chunk.at == Placement::host) allocation.on_host -= size, totals.on_host -= size;
    if (to_hbm) allocation.in_hbm += size, totals.resident += size;
    if (range.to == Placement::host) allocation.on_host += size, totals.on_host += size;
    chunk.was_in = chunk.was_in || to_hbm;
    chunk.at = range.to;
  }
  totals.moved_in += move.in;
  totals.moved_out += move.out;
  totals.resident_peak = std::max(totals.resident_peak, totals.resident);
  on_host_peaks_.resize(devices_.size());
  Bytes& on_host_peak = on_host_peaks_[static_cast<std::size_t>(&totals - devices_.data())];
  on_host_peak = std::max(on_host_peak, totals.on_host);
  if (move.changed != Bytes()) allocation.placements = ++placements_;
  if (move.in != Bytes()) allocation.arrivals = ++arrivals_;
}

void RunFollower::finish(const MoveFinished& finished) {
  const auto found = open_.find(finished.decision);
  if (found == open_.end()) return;
  const OpenMove open = found->second;
  open_.erase(found);
  move_ = {};
  move_.decision = finished.decision;
  move_.range = open.range;
  move_.cause = open.cause;
  move_.decided = open.decided;
  move_.end = finished;
  move_.end.took = sane(finished.took);
  move_.origin = {open.cause.span_class, open.cause.rule, function_at(open.cause.launch).value,
                  static_cast<std::uint32_t>(iteration())};
  const auto allocation = live_.find(open.range.allocation);
  if (allocation != live_.end()) {
    move_.device = allocation->second.device;
    if (finished.outcome == MoveOutcome::done) place(allocation->second, open.range, move_);
  }
  has_move_ = true;
}

struct RunFollower::Adder {
  RunFollower& run;

  void operator()(const DeviceSeen& event) const { run.device(event.device); }
  void operator()(const DeviceReserved& event) const { run.device(event.device).reserved += event.bytes; }
  void operator()(const FunctionSeen& event) const {
    if (event.function.value >= kMostFunctions) return;
    if (run.names_.size() <= event.function.value) run.names_.resize(event.function.value + 1);
    run.names_[event.function.value] = event.name;
  }
  void operator()(const CallerSeen& event) const { run.callers_[event.caller] = event.library; }
  void operator()(const AllocationRequested& event) const {
    FollowedAllocation asked;
    asked.id = event.allocation;
    asked.order = ++run.requests_;
    asked.device = event.device;
    asked.kind = event.kind;
    asked.caller = event.caller;
    asked.bytes = event.bytes;
    asked.asked = run.time_;
    run.release(event.allocation);  // a file that says so twice
    run.has_freed_ = false;
    run.live_[event.allocation] = std::move(asked);
  }
  void operator()(const AllocationSettled& event) const { run.settle(event); }
  void operator()(const Freed& event) const {
    if (event.result.ok()) run.release(event.allocation);
  }
  void operator()(const Mapped& event) const { run.map(event); }
  void operator()(const LaunchShapeSeen& event) const { run.see_shape(event); }
  void operator()(const Launched& event) const {
    run.stream_ = event.stream;
    Shape* const shape = run.resolved(event.shape);
    if (shape == nullptr) return run.count_launch({}, launch_key({}, event.shape.value), event.shape);
    if (!shape->uses.empty()) run.launch(*shape);
    run.count_launch(shape->function, shape->key, shape->id);
  }
  void operator()(const Copied& event) const {
    run.touch_address(event.destination, event.bytes);
    run.touch_address(event.source, event.bytes);
  }
  void operator()(const Filled& event) const { run.touch_address(event.address, event.bytes); }
  void operator()(const GraphSeen& event) const { run.graphs_[event.graph] = event.shapes; }
  void operator()(const GraphLaunched& event) const {
    run.stream_ = event.stream;
    for (const LaunchShapeId part : run.shapes_of(event.graph)) {
      if (Shape* const shape = run.resolved(part)) run.launch(*shape);
    }
    const LaunchShapeId as_shape{event.graph.value | kGraphShape};
    run.count_launch({}, launch_key({as_shape.value}, 0), as_shape);
  }
  void operator()(const MoveFinished& event) const { run.finish(event); }
  template <class Other>
  void operator()(const Other& /*event*/) const {}
};

void RunFollower::decided(const trace::Record& record) {
  const Decision& decision = record.decision;
  if (const auto* move = std::get_if<MoveRange>(&decision.body)) open_[decision.id] = {*move, decision.cause, time_};
  if (const auto* refuse = std::get_if<RefuseAllocation>(&decision.body)) {
    const auto found = live_.find(refuse->allocation);
    if (found != live_.end() && !found->second.settled) live_.erase(found);
  }
  if (decision.cause.span_class == 0) return;
  const auto found = live_.find(policy::about(decision.body));
  if (found != live_.end()) found->second.said.add(decision);
}

void RunFollower::add(const trace::Record& record) {
  has_move_ = has_freed_ = iteration_ended_ = false;
  useless_.clear();
  launched_ = {};
  host_bytes_ = {};
  time_ = std::max(time_, sane(record.time));
  if (record.kind == trace::RecordKind::event) {
    std::visit(Adder{*this}, record.event.body);
  } else if (record.kind == trace::RecordKind::decision) {
    decided(record);
  }
}

}  // namespace spillway::tools
