#include "tools/view/trace_view.hpp"

#include <algorithm>
#include <filesystem>

#include "policy/cost_table.hpp"
#include "policy/explain.hpp"
#include "tools/names.hpp"
#include "tools/trace_source.hpp"
#include "tools/view/heat_map.hpp"

namespace spillway::tools::view {

using namespace policy;

// What a part of the page wants to know of an event. Residency is looked at after each that may have changed it.
struct TraceView::EventAdder {
  TraceView& to;
  Nanoseconds time;

  void operator()(const FunctionSeen& event) const { to.allocations_.function(event); }
  void operator()(const CallerSeen& event) const { to.allocations_.caller(event); }
  void operator()(const DeviceReserved& /*event*/) const { to.note_residency(time); }
  void operator()(const AllocationRequested& event) const { to.allocations_.request(time, event); }
  void operator()(const AllocationSettled& event) const {
    to.allocations_.settle(time, event);
    to.note_residency(time);
  }
  void operator()(const Freed& event) const {
    to.allocations_.freed(time, event);
    to.note_residency(time);
  }
  void operator()(const LaunchShapeSeen& event) const { to.allocations_.shape(event); }
  void operator()(const Launched& event) const {
    to.allocations_.launched(LaunchCode::of(event.shape));
    to.timeline_.launched(time, event.stream, LaunchCode::of(event.shape));
    to.moves_.launched(time, to.run_.host_bytes());
    to.note_iteration(time);
  }
  void operator()(const GraphSeen& event) const { to.allocations_.graph(event); }
  void operator()(const GraphLaunched& event) const {
    to.allocations_.launched(LaunchCode::of(event.graph));
    to.timeline_.launched(time, event.stream, LaunchCode::of(event.graph));
    to.moves_.launched(time, to.run_.host_bytes());
    to.note_iteration(time);
  }
  void operator()(const Copied& event) const {
    to.timeline_.copied(time, event);
    to.moves_.copied(time, event);
  }
  void operator()(const Filled& event) const { to.timeline_.filled(time, event); }
  void operator()(const MoveFinished& event) const {
    const FinishedMove* move = to.run_.finished_move();
    to.moves_.finish(time, event, move == nullptr ? Bytes() : move->in + move->out, to.allocations_);
    to.note_residency(time);
  }
  void operator()(const KernelTimed& event) const { to.timeline_.timed(event); }
  // Devices, host memory, page traffic, drops and ticks: the summary has them.
  void operator()(const DeviceSeen& /*event*/) const {}
  void operator()(const HostMemorySeen& /*event*/) const {}
  void operator()(const FreeRequested& /*event*/) const {}
  void operator()(const PagesObserved& /*event*/) const {}
  void operator()(const EventsDropped& /*event*/) const {}
  void operator()(const TimePassed& /*event*/) const {}
  void operator()(const TelemetryChanged& /*event*/) const {}
  void operator()(const Mapped& /*event*/) const {}
  void operator()(const CallSeen& /*event*/) const {}
  void operator()(const ContextRefused& /*event*/) const {}
  void operator()(const MarkPassed& /*event*/) const {}
};

void TraceView::begin(const trace::TraceHeader& header) { decisions_.begin(rule_words(header)); }

void TraceView::add(const trace::Record& record) {
  summarizer_.add(record);
  if (record.kind == trace::RecordKind::event) {
    std::visit(EventAdder{*this, record.time}, record.event.body);
  } else if (record.kind == trace::RecordKind::decision) {
    decide(record.time, record.decision);
  }
}

void TraceView::decide(Nanoseconds time, const Decision& decision) {
  allocations_.decide(decision);
  if (const auto* move = std::get_if<MoveRange>(&decision.body)) {
    moves_.decide(time, decision, *move, allocations_);
    note_residency(time);
  }
  decisions_.add(blocks_, time, decision, allocations_);
}

void TraceView::note_residency(Nanoseconds time) {
  const std::vector<DeviceTotals>& devices = run_.devices();
  if (residency_.size() < devices.size()) residency_.resize(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    residency_[i].add(time, devices[i], moves_.arriving({static_cast<std::uint32_t>(i)}));
  }
}

void TraceView::note_iteration(Nanoseconds time) {
  constexpr std::size_t kMost = 100'000;
  if (!run_.iteration_ended() || iteration_time_.rows() >= kMost) return;
  iteration_time_.add(time.count());
  iteration_launches_.add(run_.launches());
  iteration_found_.add(std::uint32_t{iteration_time_.rows() == 1});
  iteration_whole_.add(std::uint32_t{1});
}

// One that was begun ends with the trace.
Json TraceView::iterations_json(Nanoseconds end) {
  if (run_.iterations().begun == iteration_time_.rows() && run_.iterations().begun > 0) {
    iteration_time_.add(end.count());
    iteration_launches_.add(run_.launches());
    iteration_found_.add(std::uint32_t{0});
    iteration_whole_.add(std::uint32_t{0});
  }
  return blocks_.add({{"time", &iteration_time_},
                      {"launches", &iteration_launches_},
                      {"found", &iteration_found_},
                      {"whole", &iteration_whole_}});
}

// Of a trace with gaps what the end recorded is not used: it would stand beside figures of what could be read.
Json TraceView::devices_json(const TraceSummary& summary) {
  Json devices = Json::array();
  for (std::size_t i = 0; i < summary.devices.size(); ++i) {
    const DeviceSummary& device = summary.devices[i];
    const bool followed = !summary.whole && i < run_.devices().size();
    const DeviceTotals& totals = followed ? run_.devices()[i] : device.totals;
    devices.push_back({{"index", i},
                       {"name", device.seen.name},
                       {"total", device.seen.total.count()},
                       {"budget", device.totals.budget.count()},
                       {"resident_peak", totals.resident_peak.count()},
                       {"moved_in", totals.moved_in.count()},
                       {"moved_out", totals.moved_out.count()},
                       {"residency", i < residency_.size() ? residency_[i].to_json(blocks_) : Json::array()}});
  }
  return devices;
}

ViewReading TraceView::finish(const std::string& path, const trace::TraceReader& reader) {
  ViewReading reading;
  reading.summary = summarizer_.finish(path, reader);
  const TraceSummary& summary = reading.summary;
  Json& json = reading.data.directory;
  json["trace"] = std::filesystem::path(path).filename().string();
  json["file_bytes"] = summary.file_bytes;
  json["program"] = summary.header.program;
  json["arguments"] = summary.header.arguments;
  json["pid"] = summary.header.pid;
  json["host"] = summary.header.host;
  json["rank"] = summary.header.rank;
  json["start"] = summary.header.start;
  json["driver"] = summary.header.driver_version;
  json["build"] = summary.header.build;
  json["settings"] = summary.header.settings;
  json["rules"] = rule_words(summary.header);
  json["whole"] = summary.whole;
  json["completeness"] = summary.completeness + (summary.whole ? "" : "; all figures are of what could be read");
  json["end_reason"] = summary.end_reason;
  json["dropped"] = summary.dropped_events + summary.dropped_frames;
  json["unknown_records"] = summary.unknown_records;
  json["duration"] = std::max(Nanoseconds(1), summary.duration).count();
  std::vector<std::string> ignored;
  json["link_in"] = read_costs(summary.header.cost_table, ignored).link_in;
  json["named_on_host"] = moves_.named_on_host().count();
  json["decision_count"] = summary.decision_count;
  json["refused"] = summary.refused.count;
  json["classes"] = kSpanClassNames;
  Json reasons = Json::array();
  for (std::size_t i = 0; i <= static_cast<std::size_t>(Reason::turns_end); ++i) {
    const auto reason = static_cast<Reason>(i);
    reasons.push_back({{"name", name_of(reason)}, {"text", reason_text(reason)}});
  }
  json["reasons"] = reasons;
  json["devices"] = devices_json(summary);
  json["timeline"] = timeline_.finish();
  json["iterations"] = iterations_json(summary.duration);
  json["iterations_text"] = iterations_text(run_.iterations());
  json["allocations"] = allocations_.finish(blocks_);
  json["heat_map"] = heat_map_json(allocations_.all(), moves_.done(), blocks_);
  json["moves"] = moves_.to_json(blocks_);
  json["decisions"] = decisions_.finish(blocks_);
  reading.data.blocks = blocks_.take();
  return reading;
}

ViewReading view_trace(const std::string& path) {
  TraceView view;
  ViewReading reading;
  TraceVisitor visitor;
  visitor.opened = [&](const trace::TraceReader& reader) { view.begin(reader.header()); };
  visitor.record = [&](const trace::Record& record) { view.add(record); };
  visitor.finished = [&](const trace::TraceReader& reader) { reading = view.finish(path, reader); };
  const auto problem = read_trace(path, visitor);
  reading.problem = problem;
  return reading;
}

}  // namespace spillway::tools::view
