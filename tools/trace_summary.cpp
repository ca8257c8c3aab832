#include "tools/trace_summary.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/trace_source.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

constexpr std::uint32_t kMostShapes = 1U << 26;  // ids beyond are damage, not memory
constexpr std::uint32_t kMostDevices = 256;
constexpr std::uint64_t kRememberedLaunches = 1U << 16;  // kernel times come some launches late
constexpr std::uint64_t kMostChunks = 1U << 22;          // 8 TiB in one allocation: likewise

std::size_t index_of(auto value) { return static_cast<std::size_t>(value); }

Bytes sum(const std::vector<DeviceSummary>& devices, Bytes DeviceTotals::*member) {
  Bytes total;
  for (const DeviceSummary& device : devices) total += device.totals.*member;
  return total;
}

}  // namespace

Bytes TraceSummary::moved_in() const { return sum(devices, &DeviceTotals::moved_in); }
Bytes TraceSummary::moved_out() const { return sum(devices, &DeviceTotals::moved_out); }
Bytes TraceSummary::resident_peak() const { return sum(devices, &DeviceTotals::resident_peak); }

DeviceSummary& TraceSummarizer::device(DeviceIndex index) {
  const std::uint32_t bounded = std::min(index.value, kMostDevices - 1);
  while (summary_.devices.size() <= bounded) {
    summary_.devices.emplace_back();
    summary_.devices.back().seen.device.value = static_cast<std::uint32_t>(summary_.devices.size() - 1);
  }
  return summary_.devices[bounded];
}

void TraceSummarizer::settle(const AllocationSettled& settled) {
  const auto found = live_.find(settled.allocation);
  if (!settled.result.ok()) {
    if (found == live_.end()) return;  // refused by us, and counted there
    ++summary_.failed_allocations;
    live_.erase(found);
    return;
  }
  ++summary_.allocations;
  summary_.allocations_by_backing[index_of(settled.backing)].add(settled.bytes);
  if (found == live_.end()) return;
  LiveAllocation& allocation = found->second;
  allocation.bytes = settled.bytes;
  allocation.backing = settled.backing;
  allocation.settled = true;
  add_stretch(settled);
  DeviceTotals& totals = device(allocation.device).totals;
  if (settled.backing == Backing::device) {
    totals.plain += settled.bytes;
    return;
  }
  totals.managed += settled.bytes;
  const std::uint64_t chunks = (settled.bytes.count() + kChunk.count() - 1) / kChunk.count();
  allocation.chunks.resize(std::min(chunks, kMostChunks), Placement::unpopulated);
}

void TraceSummarizer::release(AllocationId id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  LiveAllocation& allocation = found->second;
  DeviceTotals& totals = device(allocation.device).totals;
  if (allocation.settled && allocation.backing == Backing::device) totals.plain -= allocation.bytes;
  if (allocation.settled && allocation.backing == Backing::managed) {
    totals.managed -= allocation.bytes;
    place(allocation, {id, {}, allocation.bytes, Placement::unpopulated, {}, {}, {}});
  }
  live_.erase(found);
}

// Counts the bytes whose placement this changes, and keeps resident and on_host.
void TraceSummarizer::place(LiveAllocation& allocation, const MoveRange& move) {
  DeviceTotals& totals = device(allocation.device).totals;
  const std::uint64_t first = move.offset.count() / kChunk.count();
  const std::uint64_t end = first + (move.bytes.count() + kChunk.count() - 1) / kChunk.count();
  const auto in_hbm = [](Placement at) { return at == Placement::device || at == Placement::duplicated; };
  Bytes changed;
  for (std::uint64_t i = first; i < std::min<std::uint64_t>(end, allocation.chunks.size()); ++i) {
    Placement& at = allocation.chunks[i];
    if (at == move.to) continue;
    const Bytes size = std::min(kChunk, allocation.bytes.saturating_minus(kChunk * i));
    changed += size;
    if (in_hbm(at)) totals.resident -= size;
    if (at == Placement::host) totals.on_host -= size;
    if (in_hbm(move.to)) totals.resident += size;
    if (move.to == Placement::host) totals.on_host += size;
    if (at == Placement::host && in_hbm(move.to)) totals.moved_in += size;
    if (at == Placement::device && move.to == Placement::host) totals.moved_out += size;
    at = move.to;
  }
  totals.resident_peak = std::max(totals.resident_peak, totals.resident);
  if (move.to != Placement::unpopulated) summary_.moves_done[index_of(move.to)].bytes += changed;
}

void TraceSummarizer::finish_move(const MoveFinished& finished) {
  const auto found = open_moves_.find(finished.decision);
  if (finished.outcome == MoveOutcome::failed) ++summary_.moves_failed;
  if (finished.outcome == MoveOutcome::cancelled) ++summary_.moves_cancelled;
  if (found == open_moves_.end()) return;
  const MoveRange move = found->second;
  open_moves_.erase(found);
  if (finished.outcome != MoveOutcome::done) return;
  ++summary_.moves_done[index_of(move.to)].count;
  if (const auto allocation = live_.find(move.allocation); allocation != live_.end()) place(allocation->second, move);
}

std::uint32_t TraceSummarizer::function_of(LaunchShapeId shape) const {
  return shape.value < function_of_shape_.size() ? function_of_shape_[shape.value] : 0;
}

// A graph launch has a number, and no shape.
void TraceSummarizer::count_launch(LaunchShapeId shape) {
  const std::uint32_t function = function_of(shape);
  if (shape) ++functions_[function].launches;
  if (function_of_launch_.size() < kRememberedLaunches) function_of_launch_.resize(kRememberedLaunches);
  function_of_launch_[++launches_seen_ % kRememberedLaunches] = function;
}

void TraceSummarizer::add_time(const KernelTimed& timed) {
  ++summary_.timed_launches;
  const std::uint64_t launch = timed.launch.value;
  if (launch == 0 || launch > launches_seen_ || launch + kRememberedLaunches <= launches_seen_) return;
  FunctionSummary& function = functions_[function_of_launch_[launch % kRememberedLaunches]];
  ++function.timed;
  function.kernel_time += timed.duration;
}

// Page traffic comes some milliseconds late, when its memory may have been freed.
void TraceSummarizer::add_stretch(const AllocationSettled& settled) {
  if (!settled.address) return;
  const Address end = settled.address + settled.bytes;
  auto first = stretches_.lower_bound(settled.address);
  if (first != stretches_.begin()) {
    const auto before = std::prev(first);
    if (before->first + before->second.bytes > settled.address) first = before;
  }
  stretches_.erase(first, stretches_.lower_bound(end));
  stretches_[settled.address] = {settled.bytes, settled.backing};
}

void TraceSummarizer::add_pages(const PagesObserved& pages) {
  summary_.page_traffic[index_of(pages.traffic)].add(pages.bytes);
  const auto next = stretches_.upper_bound(pages.address);
  if (next == stretches_.begin()) return;
  const auto& [address, stretch] = *std::prev(next);
  if (stretch.backing != Backing::managed || pages.address.value - address.value >= stretch.bytes.count()) return;
  summary_.spilled_page_traffic[index_of(pages.traffic)].add(pages.bytes);
}

struct TraceSummarizer::EventAdder {
  TraceSummarizer& to;
  TraceSummary& summary;

  void operator()(const DeviceSeen& event) const { to.device(event.device).seen = event; }
  void operator()(const HostMemorySeen& /*event*/) const {}
  void operator()(const DeviceReserved& event) const {
    to.device(event.device).reserved.add(event.bytes);
    to.device(event.device).totals.reserved += event.bytes;
  }
  void operator()(const FunctionSeen& event) const { to.functions_[event.function.value].name = event.name; }
  void operator()(const CallerSeen& /*event*/) const {}
  void operator()(const AllocationRequested& event) const {
    summary.allocations_by_kind[index_of(event.kind)].add(event.bytes);
    to.live_[event.allocation] = {event.device, event.bytes, Backing::device, false, {}};
  }
  void operator()(const AllocationSettled& event) const { to.settle(event); }
  void operator()(const FreeRequested& /*event*/) const {}
  void operator()(const Freed& event) const {
    if (!event.result.ok()) return;
    ++summary.frees;
    to.release(event.allocation);
  }
  void operator()(const LaunchShapeSeen& event) const {
    ++summary.shapes;
    if (event.shape.value >= kMostShapes) return;
    if (to.function_of_shape_.size() <= event.shape.value) to.function_of_shape_.resize(event.shape.value + 1);
    to.function_of_shape_[event.shape.value] = event.function.value;
  }
  void operator()(const Launched& event) const {
    ++summary.launches;
    to.count_launch(event.shape);
  }
  void operator()(const Copied& event) const { summary.copies[index_of(event.kind)].add(event.bytes); }
  void operator()(const Filled& event) const { summary.fills.add(event.bytes); }
  void operator()(const GraphSeen& /*event*/) const {}
  void operator()(const GraphLaunched& /*event*/) const {
    ++summary.launches;
    ++summary.graph_launches;
    to.count_launch({});
  }
  void operator()(const MoveFinished& event) const { to.finish_move(event); }
  void operator()(const KernelTimed& event) const { to.add_time(event); }
  void operator()(const PagesObserved& event) const { to.add_pages(event); }
  void operator()(const TelemetryChanged& event) const {
    if (event.state == TelemetryState::window_lost) {
      ++summary.lost_windows;
      return;
    }
    static constexpr std::array kStates = {"running", "absent", "refused", "yielded"};
    summary.telemetry = kStates[index_of(event.state)];
  }
  void operator()(const EventsDropped& event) const { summary.dropped_events += event.count; }
  void operator()(const TimePassed& /*event*/) const {}
};

// Bytes that a decision speaks of.
struct TraceSummarizer::DecisionAdder {
  TraceSummarizer& to;
  DecisionId id;

  [[nodiscard]] Bytes requested(AllocationId allocation) const {
    const auto found = to.live_.find(allocation);
    return found == to.live_.end() ? Bytes() : found->second.bytes;
  }
  Bytes operator()(const BackAllocation& decision) const { return requested(decision.allocation); }
  Bytes operator()(const RefuseAllocation& decision) const {
    const Bytes bytes = requested(decision.allocation);
    to.summary_.refused.add(bytes);
    to.live_.erase(decision.allocation);
    return bytes;
  }
  Bytes operator()(const MoveRange& decision) const {
    to.open_moves_[id] = decision;
    return decision.bytes;
  }
  Bytes operator()(const AdviseRange& decision) const { return decision.bytes; }
  Bytes operator()(const CancelMoves& /*decision*/) const { return {}; }
  Bytes operator()(const Note& decision) const { return decision.bytes; }
};

void TraceSummarizer::add(const trace::Record& record) {
  summary_.duration = std::max(summary_.duration, record.time);
  if (record.kind == trace::RecordKind::event) {
    std::visit(EventAdder{*this, summary_}, record.event.body);
  } else if (record.kind == trace::RecordKind::decision) {
    ++summary_.decision_count;
    const Bytes bytes = std::visit(DecisionAdder{*this, record.decision.id}, record.decision.body);
    summary_.decisions[{record.decision.body.index(), record.decision.cause.reason}].add(bytes);
  }
}

void TraceSummarizer::add_end(const trace::TraceReader& reader) {
  if (const auto& end = reader.end()) {
    summary_.end_reason = end->reason;
    summary_.dropped_events = std::max(summary_.dropped_events, end->dropped_events);
    summary_.dropped_frames = end->dropped_frames;
    summary_.ignored_events = end->ignored_events;
    for (const trace::DeviceEnd& recorded : end->devices) {
      DeviceSummary& of = device(recorded.device);
      of.totals = recorded.totals;
      of.totals_are_recorded = true;
    }
  }
  Settings settings;
  for (const auto& [key, value] : summary_.header.settings) {
    if (key == "memory.device_budget") static_cast<void>(set_setting(settings, key, value, "trace"));
  }
  for (DeviceSummary& of : summary_.devices) {
    if (!of.totals_are_recorded && settings.device_budget) of.totals.budget = settings.device_budget->of(of.seen.total);
  }
}

TraceSummary TraceSummarizer::finish(const std::string& path, const trace::TraceReader& reader) {
  summary_.path = path;
  summary_.header = reader.header();
  summary_.completeness = completeness(reader);
  summary_.whole = reader.whole();
  summary_.file_bytes = reader.report().bytes;
  summary_.records = reader.records();
  summary_.unknown_records = reader.unknown_records();
  summary_.moves_open = open_moves_.size();
  for (const auto& [id, allocation] : live_) {
    if (allocation.settled) summary_.live_at_end.add(allocation.bytes);
  }
  for (auto& [id, function] : functions_) {
    if (function.name.empty()) function.name = id == 0 ? "(unknown)" : "(function " + std::to_string(id) + ")";
    if (function.launches > 0) summary_.functions.push_back(std::move(function));
  }
  std::sort(summary_.functions.begin(), summary_.functions.end(), [](const auto& a, const auto& b) {
    return a.launches != b.launches ? a.launches > b.launches : a.name < b.name;
  });
  add_end(reader);
  return std::move(summary_);
}

SummaryReading summarize(const std::string& path) {
  TraceSummarizer summarizer;
  SummaryReading reading;
  reading.problem = read_trace(
      path, [&](const trace::Record& record) { summarizer.add(record); },
      [&](const trace::TraceReader& reader) { reading.summary = summarizer.finish(path, reader); });
  return reading;
}

const char* name_of(Reason reason) {
  static constexpr std::array kNames = {"mode",         "rule",           "small",           "not_spillable",
                                        "fits",         "expected_spill", "window_room",     "window_full",
                                        "host_budget",  "device_budget",  "least_recent",    "next_use",
                                        "upcoming_use", "worth",          "read_only",       "sparse",
                                        "watchdog",     "learned_class",  "over_working_set"};
  return index_of(reason) < kNames.size() ? kNames[index_of(reason)] : "(newer)";
}

const char* name_of(AllocationKind kind) {
  static constexpr std::array kNames = {"linear",   "pitched",  "stream-ordered", "program's own managed",
                                        "physical", "imported", "array"};
  return kNames[index_of(kind)];
}

const char* name_of_decision(std::size_t position) {
  static constexpr std::array kNames = {"back allocation", "refuse allocation", "move",
                                        "advise",          "cancel moves",      "note"};
  static_assert(kNames.size() == std::variant_size_v<DecisionBody>);
  return kNames[position];
}

}  // namespace spillway::tools
