#include "tools/trace_summary.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "policy/device_budget.hpp"
#include "tools/names.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

constexpr std::uint32_t kMostDeviceRows = 256;             // indices beyond are damage, not memory
constexpr Nanoseconds kLongestKernel{86'400'000'000'000};  // a day: likewise

std::size_t index_of(auto value) { return static_cast<std::size_t>(value); }

Bytes sum(const std::vector<DeviceSummary>& devices, Bytes DeviceTotals::*member) {
  Bytes total;
  for (const DeviceSummary& device : devices) total += device.totals.*member;
  return total;
}

}  // namespace

Bytes TraceSummary::moved_in() const { return sum(devices, &DeviceTotals::moved_in); }
Bytes TraceSummary::moved_out() const { return sum(devices, &DeviceTotals::moved_out); }
Bytes TraceSummary::on_host_peak() const {
  Bytes total;
  for (const DeviceSummary& device : devices) total += device.on_host_peak;
  return total;
}
bool TraceSummary::simulated() const {
  return std::any_of(devices.begin(), devices.end(), [](const DeviceSummary& device) {
    return device.seen.name.starts_with("Spillway simulated device");
  });
}
bool TraceSummary::off() const { return settings_of(header).mode == ModeName::off; }
Bytes TraceSummary::resident_peak() const { return sum(devices, &DeviceTotals::resident_peak); }

DeviceSummary& TraceSummarizer::device(DeviceIndex index) {
  const std::uint32_t bounded = std::min(index.value, kMostDeviceRows - 1);
  while (summary_.devices.size() <= bounded) {
    summary_.devices.emplace_back();
    summary_.devices.back().seen.device.value = static_cast<std::uint32_t>(summary_.devices.size() - 1);
  }
  return summary_.devices[bounded];
}

void TraceSummarizer::add_move(const MoveFinished& finished) {
  if (finished.outcome == MoveOutcome::failed) ++summary_.moves_failed;
  if (finished.outcome == MoveOutcome::cancelled) ++summary_.moves_cancelled;
  const FinishedMove* const move = run_.finished_move();
  if (move == nullptr || finished.outcome != MoveOutcome::done) return;
  if (const FollowedAllocation* moved = run_.find(move->range.allocation)) {
    moving_faults_.moved(moved->address + move->range.offset, move->range.bytes, finished.took, run_.time());
  }
  CountAndBytes& of = summary_.moves_done[index_of(move->range.to)];
  ++of.count;
  if (move->range.to != Placement::unpopulated) of.bytes += move->changed;
  summary_.refetched += move->refetched;
}

TraceSummarizer::OfFunction& TraceSummarizer::of_function(FunctionId function) {
  if (functions_.size() <= function.value) functions_.resize(function.value + 1);
  return functions_[function.value];
}

void TraceSummarizer::add_time(const KernelTimed& timed) {
  if (timed.duration < Nanoseconds() || timed.duration > kLongestKernel) return;
  ++summary_.timed_launches;
  OfFunction& function = of_function(run_.function_at(timed.launch));
  ++function.timed;
  function.kernel_time += timed.duration;
}

// Page traffic comes some milliseconds late, when its memory may have been freed.
void TraceSummarizer::add_stretch(const AllocationSettled& settled) {
  const bool wraps = settled.address.value + settled.bytes.count() < settled.address.value;  // of a damaged record
  if (!settled.address || settled.bytes == Bytes() || wraps) return;
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
  if (pages.traffic == PageTraffic::gpu_fault) moving_faults_.fault(pages.address, run_.time());
}

struct TraceSummarizer::EventAdder {
  TraceSummarizer& to;
  TraceSummary& summary;
  bool known;  // the allocation that an AllocationSettled names: what we refused is not

  void operator()(const DeviceSeen& event) const { to.device(event.device).seen = event; }
  void operator()(const DeviceReserved& event) const { to.device(event.device).reserved.add(event.bytes); }
  void operator()(const AllocationRequested& event) const {
    summary.allocations_by_kind[index_of(event.kind)].add(event.bytes);
  }
  void operator()(const AllocationSettled& event) const {
    if (!event.result.ok()) {
      if (known) ++summary.failed_allocations;
      return;
    }
    ++summary.allocations;
    summary.allocations_by_backing[index_of(event.backing)].add(event.bytes);
    to.add_stretch(event);
    if (!known) return;
    to.live_.add(event.bytes);
    if (to.live_.bytes > summary.live_at_peak.bytes) summary.live_at_peak = to.live_;
  }
  void operator()(const Freed& event) const {
    if (event.result.ok()) ++summary.frees;
    const FollowedAllocation* gone = to.run_.freed();
    if (gone == nullptr || !gone->settled || to.live_.count == 0) return;
    --to.live_.count;
    to.live_.bytes = to.live_.bytes.saturating_minus(gone->bytes);
  }
  void operator()(const LaunchShapeSeen& /*event*/) const { ++summary.shapes; }
  void operator()(const Launched& /*event*/) const {
    ++summary.launches;
    ++to.of_function(to.run_.launched()).launches;
  }
  void operator()(const Copied& event) const { summary.copies[index_of(event.kind)].add(event.bytes); }
  void operator()(const Filled& event) const { summary.fills.add(event.bytes); }
  void operator()(const GraphLaunched& /*event*/) const {
    ++summary.launches;
    ++summary.graph_launches;
  }
  void operator()(const MoveFinished& event) const { to.add_move(event); }
  void operator()(const KernelTimed& event) const { to.add_time(event); }
  void operator()(const PagesObserved& event) const { to.add_pages(event); }
  void operator()(const TelemetryChanged& event) const {
    if (event.state == TelemetryState::window_lost) {
      ++summary.lost_windows;
      return;
    }
    if (event.state == TelemetryState::by_events) summary.telemetry = "events";
    static constexpr std::array kStates = {"running", "absent", "refused", "yielded"};
    if (index_of(event.state) < kStates.size()) summary.telemetry = kStates[index_of(event.state)];
    if (event.state == TelemetryState::events_refused) summary.telemetry = "refused";
  }
  void operator()(const EventsDropped& event) const { summary.dropped_events += event.count; }
  template <class Other>
  void operator()(const Other& /*event*/) const {}
};

// Bytes that a decision speaks of.
struct TraceSummarizer::BytesOf {
  const RunFollower& run;

  [[nodiscard]] Bytes requested(AllocationId allocation) const {
    const FollowedAllocation* const found = run.find(allocation);
    return found == nullptr ? Bytes() : found->bytes;
  }
  Bytes operator()(const BackAllocation& decision) const { return requested(decision.allocation); }
  Bytes operator()(const RefuseAllocation& decision) const { return requested(decision.allocation); }
  Bytes operator()(const MoveRange& decision) const { return decision.bytes; }
  Bytes operator()(const AdviseRange& decision) const { return decision.bytes; }
  Bytes operator()(const CancelMoves& /*decision*/) const { return {}; }
  Bytes operator()(const Note& decision) const { return decision.bytes; }
  Bytes operator()(const MarkProgress& /*decision*/) const { return {}; }
};

void TraceSummarizer::add(const trace::Record& record) {
  summary_.duration = std::max(summary_.duration, record.time);
  if (record.kind == trace::RecordKind::decision) {
    ++summary_.decision_count;
    const Bytes bytes = std::visit(BytesOf{run_}, record.decision.body);
    summary_.decisions[{record.decision.body.index(), record.decision.cause.reason}].add(bytes);
    if (std::holds_alternative<RefuseAllocation>(record.decision.body)) summary_.refused.add(bytes);
    return run_.add(record);
  }
  const auto* settled = std::get_if<AllocationSettled>(&record.event.body);
  const bool known = settled != nullptr && run_.find(settled->allocation) != nullptr;
  run_.add(record);
  std::visit(EventAdder{*this, summary_, known}, record.event.body);
  for (const UselessMove& useless : run_.useless()) summary_.useless += useless.bytes;
}

void TraceSummarizer::add_end(const trace::TraceReader& reader) {
  const std::vector<DeviceTotals>& followed = run_.devices();
  for (std::size_t i = 0; i < followed.size(); ++i) device({static_cast<std::uint32_t>(i)}).totals = followed[i];
  const std::vector<Bytes>& peaks = run_.on_host_peaks();
  for (std::size_t i = 0; i < peaks.size(); ++i) device({static_cast<std::uint32_t>(i)}).on_host_peak = peaks[i];
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
  // Of a trace that is cut before its first events the header alone says which.
  for (const DeviceSeen& known : summary_.header.devices) {
    DeviceSummary& of = device(known.device);
    if (of.seen.total == Bytes()) of.seen = known;
  }
  if (!summary_.header_is_known) return;  // nor is the budget
  const Settings settings = settings_of(summary_.header);
  for (DeviceSummary& of : summary_.devices) {
    if (!of.totals_are_recorded) of.totals.budget = device_budget(settings, of.seen);
  }
}

TraceSummary TraceSummarizer::finish(const std::string& path, const trace::TraceReader& reader) {
  summary_.path = path;
  summary_.header = reader.header();
  summary_.completeness = completeness(reader);
  summary_.reached_max_size = reached_max_size(reader);
  summary_.loss_is_counted = reader.whole();
  summary_.whole = reader.whole() && !summary_.reached_max_size;
  summary_.header_is_known = !reader.report().header_damaged;
  summary_.file_bytes = reader.report().bytes;
  summary_.records = reader.records();
  summary_.unknown_records = reader.unknown_records();
  summary_.moves_open = run_.open_moves();
  summary_.moving_faults = moving_faults_.count();
  for (const auto& [id, allocation] : run_.live()) {
    if (allocation.settled) summary_.live_at_end.add(allocation.bytes);
  }
  for (std::uint32_t id = 0; id < functions_.size(); ++id) {
    const OfFunction& of = functions_[id];
    if (of.launches == 0) continue;
    std::string name = run_.name({id});
    if (name.empty()) name = id == 0 ? "(unknown)" : "(function " + std::to_string(id) + ")";
    summary_.functions.push_back({std::move(name), of.launches, of.timed, of.kernel_time});
  }
  std::sort(summary_.functions.begin(), summary_.functions.end(), [](const auto& a, const auto& b) {
    return a.launches != b.launches ? a.launches > b.launches : a.name < b.name;
  });
  add_end(reader);
  return std::move(summary_);
}

SummaryReading summarize(const std::string& path) {
  RunFollower run(Follows::memory);
  TraceSummarizer summarizer(run);
  SummaryReading reading;
  reading.problem = read_trace(
      path, [&](const trace::Record& record) { summarizer.add(record); },
      [&](const trace::TraceReader& reader) { reading.summary = summarizer.finish(path, reader); });
  return reading;
}

const char* name_of(Reason reason) {
  static constexpr std::array kNames = {"mode",
                                        "rule",
                                        "small",
                                        "not_spillable",
                                        "fits",
                                        "expected_spill",
                                        "window_room",
                                        "window_full",
                                        "host_budget",
                                        "device_budget",
                                        "least_recent",
                                        "next_use",
                                        "upcoming_use",
                                        "worth",
                                        "read_only",
                                        "sparse",
                                        "watchdog",
                                        "learned_class",
                                        "over_working_set",
                                        "oom_first",
                                        "hot",
                                        "second_chance",
                                        "turn",
                                        "turns_end"};
  return index_of(reason) < kNames.size() ? kNames[index_of(reason)] : "(newer)";
}

const char* name_of(AllocationKind kind) {
  static constexpr std::array kNames = {"linear",   "pitched", "stream-ordered", "program's own managed", "physical",
                                        "imported", "array",   "unspillable",    "stretchable",           "pool arena"};
  return kNames[index_of(kind)];
}

const char* name_of_decision(std::size_t position) {
  static constexpr std::array kNames = {
      "back allocation", "refuse allocation", "move", "advise", "cancel moves", "note", "mark progress"};
  static_assert(kNames.size() == std::variant_size_v<DecisionBody>);
  return kNames[position];
}

}  // namespace spillway::tools
