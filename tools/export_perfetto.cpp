// The trace as Perfetto's own (https://perfetto.dev/docs/reference/trace-packet-proto): it opens in ui.perfetto.dev.
//
// One process; below it a track of iterations, one of decisions, per stream one of launches (marks: when the program
// asked) and, where kernels were timed, one of kernels; per device one of copies in and one of copies out, and
// counters. A flow leads from each decision to its move, and from a move into HBM to the next launch that names what
// came in.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "policy/demangle.hpp"
#include "policy/explain.hpp"
#include "tools/exporter.hpp"
#include "tools/names.hpp"
#include "tools/output_file.hpp"
#include "tools/proto_writer.hpp"
#include "tools/regular_file.hpp"
#include "tools/run_name.hpp"
#include "tools/sane_time.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

// Field numbers of perfetto/protos, by message.
namespace trace_file {
constexpr std::uint32_t kPacket = 1;
}
namespace packet {
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13,
                        kTrackDescriptor = 60;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;
}  // namespace packet
namespace track {
constexpr std::uint32_t kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kDescription = 14;
constexpr std::uint32_t kProcessPid = 1, kProcessCommandLine = 2, kProcessName = 6;
constexpr std::uint32_t kCounterUnit = 3;
constexpr std::uint64_t kUnitBytes = 3;
}  // namespace track
namespace event {
constexpr std::uint32_t kAnnotation = 4, kType = 9, kNameId = 10, kTrack = 11, kName = 23, kCounterValue = 30,
                        kFlow = 47, kFlowEnd = 48;
constexpr std::uint64_t kBegin = 1, kEnd = 2, kInstant = 3, kCounterType = 4;
constexpr std::uint32_t kAnnotationUnsigned = 3, kAnnotationText = 6, kAnnotationName = 10;
}  // namespace event
namespace interned {
constexpr std::uint32_t kEventNames = 2, kId = 1, kText = 2;
}

enum class TrackKind : std::uint8_t {
  process = 1,
  iterations,
  decisions,
  launches,
  kernels,
  copies_in,
  copies_out,
  counter
};
enum class Counter : std::uint8_t { resident, on_host, plain };

// Comes first in the file, but for the lengths of what it is part of.
constexpr std::string_view kMark = "Written by spillway export";
constexpr std::size_t kMostBefore = 24;
// Behind it, where the trace says of which run it is.
constexpr std::string_view kOf = " of ";
constexpr std::size_t kMostOfRun = 1024;

constexpr std::size_t kLatestStreams = std::size_t{1} << 16;
constexpr std::size_t kMostPending = 1024;  // moves whose memory no launch has named yet

class PerfettoExporter : public Exporter {
 public:
  [[nodiscard]] FileMark mark() const override { return {kMark, 0, kMostBefore}; }
  [[nodiscard]] std::string run_of(const std::string& path) const override {
    std::string why;
    const std::string begin = read_regular(path, kMostBefore + kMostOfRun, why).value_or("");
    const std::string mark = std::string(kMark) + std::string(kOf);
    const std::size_t at = begin.find(mark);
    return at == std::string::npos ? std::string() : leading_run_name(std::string_view(begin).substr(at + mark.size()));
  }
  std::optional<std::string> open(const std::string& path) override { return file_.open(path); }
  [[nodiscard]] bool failed() const override { return file_.failed(); }

  void begin(const trace::TraceHeader& header) override {
    rules_ = rule_words(header);
    // The pid keeps the tracks of several files apart, should they be concatenated.
    base_ = (header.pid & 0xFFFFFFU) << 32U;
    sequence_ = static_cast<std::uint32_t>(header.pid & 0x7FFFFFFFU) | 1U;
    ProtoMessage process;
    process.signed_number(track::kProcessPid, static_cast<std::int32_t>(header.pid));
    for (const std::string& argument : header.arguments) process.text(track::kProcessCommandLine, argument);
    std::string name = header.program.substr(header.program.rfind('/') + 1);
    if (!header.rank.empty()) name += ", rank " + header.rank;
    process.text(track::kProcessName, name);
    ProtoMessage descriptor;
    const std::string run = run_name(header.host, header.pid, header.start);
    descriptor.text(track::kDescription,
                    run.empty() ? std::string(kMark) : std::string(kMark) + std::string(kOf) + run);
    descriptor.number(track::kUuid, uuid(TrackKind::process, 0));
    ProtoMessage first;
    first.message(packet::kTrackDescriptor, descriptor.message(track::kProcess, process));
    put(first.number(packet::kSequence, sequence_).number(packet::kSequenceFlags, packet::kStateCleared));
    known_[uuid(TrackKind::process, 0)] = true;
  }

  void add(const trace::Record& record, RunFollower& run, bool inside) override {
    if (inside && first_time_ == kNever) first_time_ = record.time;
    touched_ = touched_ || inside;
    if (run.iteration_ended()) end_iteration(run, true);
    if (record.kind == trace::RecordKind::decision) {
      if (inside) decide(record);
      return;
    }
    const EventBody& body = record.event.body;
    if (const auto* launched = std::get_if<Launched>(&body)) {
      launch(launched->stream, run, record.time, inside,
             [&](const auto& visit) { run.each_use(launched->shape, visit); });
    } else if (const auto* graph = std::get_if<GraphLaunched>(&body)) {
      launch(graph->stream, run, record.time, inside, [&](const auto& visit) {
        for (const LaunchShapeId shape : run.shapes_of(graph->graph)) run.each_use(shape, visit);
      });
    } else if (const FinishedMove* move = run.finished_move()) {
      if (inside) moved(*move, record.time);
    } else if (const auto* timed = std::get_if<KernelTimed>(&body)) {
      if (inside) kernel(*timed, run);
    }
    if (inside) count(run, record.time);
  }

  std::optional<std::string> finish(const trace::TraceReader& /*reader*/, RunFollower& run) override {
    end_iteration(run, false);
    return file_.finish();
  }

 private:
  static constexpr Nanoseconds kNever{-1};

  struct Pending {
    std::uint64_t flow = 0;
    AllocationId allocation;
    Bytes begin;
    Bytes end;
  };

  [[nodiscard]] std::uint64_t uuid(TrackKind kind, std::uint32_t index) const {
    return base_ | (std::uint64_t{static_cast<std::uint8_t>(kind)} << 56U) | index;
  }
  [[nodiscard]] std::uint64_t flow_of(DecisionId decision) const { return (base_ << 8U) ^ decision.value; }

  void put(const ProtoMessage& one) {
    whole_.clear();
    file_.write(whole_.message(trace_file::kPacket, one).bytes());
  }

  // Describes the track before its first event.
  std::uint64_t track_of(TrackKind kind, std::uint32_t index, const std::string& name) {
    const std::uint64_t id = uuid(kind, index);
    if (std::exchange(known_[id], true)) return id;
    ProtoMessage descriptor;
    descriptor.number(track::kUuid, id).text(track::kName, name);
    descriptor.number(track::kParent, uuid(TrackKind::process, 0));
    if (kind == TrackKind::counter) {
      descriptor.message(track::kCounter, ProtoMessage().number(track::kCounterUnit, track::kUnitBytes));
    }
    ProtoMessage one;
    put(one.number(packet::kSequence, sequence_).message(packet::kTrackDescriptor, descriptor));
    return id;
  }

  void put_event(Nanoseconds time, const ProtoMessage& of) {
    packet_.clear();
    packet_.number(packet::kTimestamp, static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
    packet_.number(packet::kSequence, sequence_).number(packet::kSequenceFlags, packet::kNeedsState);
    if (!new_names_.bytes().empty()) {
      packet_.message(packet::kInternedData, new_names_);
      new_names_.clear();
    }
    put(packet_.message(packet::kTrackEvent, of));
  }

  // A name is written once and then known by its number.
  std::uint64_t name_id(const std::string& name) {
    const auto [at, fresh] = names_.try_emplace(name, names_.size() + 1);
    if (fresh) {
      new_names_.message(interned::kEventNames,
                         ProtoMessage().number(interned::kId, at->second).text(interned::kText, name));
    }
    return at->second;
  }

  static ProtoMessage annotation(const char* name, std::uint64_t value) {
    return ProtoMessage().text(event::kAnnotationName, name).number(event::kAnnotationUnsigned, value);
  }
  static ProtoMessage annotation(const char* name, const std::string& value) {
    return ProtoMessage().text(event::kAnnotationName, name).text(event::kAnnotationText, value);
  }

  void decide(const trace::Record& record) {
    const Decision& decision = record.decision;
    const std::uint64_t on = track_of(TrackKind::decisions, 0, "decisions");
    ProtoMessage of;
    of.number(event::kType, event::kInstant).number(event::kTrack, on);
    const std::string kind = decision_kind_name(decision.body);
    const bool note = std::holds_alternative<Note>(decision.body);
    of.number(event::kNameId, name_id(note ? kind : kind + ": " + name_of(decision.cause.reason)));
    of.message(event::kAnnotation, annotation("decision", decision.id.value));
    of.message(event::kAnnotation, annotation("sentence", explain(decision, rules_)));
    if (std::holds_alternative<MoveRange>(decision.body)) of.fixed64(event::kFlow, flow_of(decision.id));
    put_event(record.time, of);
  }

  void slice(std::uint64_t on, Nanoseconds begin, Nanoseconds end, ProtoMessage& first) {
    // Slices of one track follow each other, whatever the clocks say.
    Nanoseconds& free = free_from_[on];
    begin = std::max({begin, free, Nanoseconds(0)});
    end = std::max(begin, end);
    free = end;
    put_event(begin, first);
    put_event(end, ProtoMessage().number(event::kType, event::kEnd).number(event::kTrack, on));
  }

  void moved(const FinishedMove& move, Nanoseconds time) {
    const bool in = in_hbm(move.range.to);
    const std::string device = "device " + std::to_string(move.device.value);
    const std::uint64_t on = in ? track_of(TrackKind::copies_in, move.device.value, device + ": copies in")
                                : track_of(TrackKind::copies_out, move.device.value, device + ": copies out");
    ProtoMessage of;
    of.number(event::kType, event::kBegin).number(event::kTrack, on);
    const std::string outcome =
        move.end.outcome == MoveOutcome::done ? "" : std::string(", ") + outcome_name(move.end.outcome);
    of.number(event::kNameId, name_id(span_class_name(move.cause.span_class) + outcome));
    of.message(event::kAnnotation, annotation("decision", move.decision.value));
    of.message(event::kAnnotation, annotation("allocation", move.range.allocation.value));
    of.message(event::kAnnotation, annotation("offset", move.range.offset.count()));
    of.message(event::kAnnotation, annotation("bytes", move.range.bytes.count()));
    of.message(event::kAnnotation, annotation("crossed", (move.in + move.out).count()));
    const std::uint64_t flow = flow_of(move.decision);
    const Bytes end = move.range.offset + move.range.bytes;
    std::erase_if(pending_, [&](const Pending& one) {  // what leaves before a launch has named it leads nowhere
      return one.allocation == move.range.allocation && one.begin < end && move.range.offset < one.end;
    });
    const bool goes_on = move.in != Bytes() && pending_.size() < kMostPending;
    of.fixed64(goes_on ? event::kFlow : event::kFlowEnd, flow);
    slice(on, std::max(sane(time) - move.end.took, move.decided), sane(time), of);
    if (goes_on) pending_.push_back({flow, move.range.allocation, move.range.offset, end});
  }

  template <class EachUse>
  void launch(StreamId stream, RunFollower& run, Nanoseconds time, bool inside, const EachUse& each_use) {
    if (streams_.empty()) streams_.resize(kLatestStreams);
    streams_[run.launches() % kLatestStreams] = stream.value;
    std::vector<std::uint64_t> ending;
    if (!pending_.empty()) {
      each_use([&](AllocationId allocation, Bytes begin, Bytes end) {
        std::erase_if(pending_, [&](const Pending& one) {
          const bool named = one.allocation == allocation && one.begin < end && begin < one.end;
          if (named) ending.push_back(one.flow);
          return named;
        });
      });
    }
    if (!inside) return;
    const std::uint64_t on =
        track_of(TrackKind::launches, stream.value, "stream " + std::to_string(stream.value) + ": launches");
    ProtoMessage of;
    of.number(event::kType, event::kInstant).number(event::kTrack, on);
    of.number(event::kNameId, name_id(function_name(run.launched(), run)));
    of.message(event::kAnnotation, annotation("launch", run.launches()));
    if (run.host_bytes() != Bytes())
      of.message(event::kAnnotation, annotation("named on host", run.host_bytes().count()));
    for (const std::uint64_t flow : ending) of.fixed64(event::kFlowEnd, flow);
    put_event(time, of);
  }

  static std::string function_name(FunctionId function, const RunFollower& run) {
    if (!function) return "(graph)";
    const std::string& name = run.name(function);
    return name.empty() ? "(function " + std::to_string(function.value) + ")" : demangled(name);
  }

  void kernel(const KernelTimed& timed, const RunFollower& run) {
    if (timed.launch.value + kLatestStreams <= run.launches() || timed.launch.value > run.launches()) return;
    const std::uint32_t stream = streams_.empty() ? 0 : streams_[timed.launch.value % kLatestStreams];
    const std::uint64_t on = track_of(TrackKind::kernels, stream, "stream " + std::to_string(stream) + ": kernels");
    ProtoMessage of;
    of.number(event::kType, event::kBegin).number(event::kTrack, on);
    of.number(event::kNameId, name_id(function_name(run.function_at(timed.launch), run)));
    of.message(event::kAnnotation, annotation("launch", timed.launch.value));
    slice(on, sane(timed.start), sane(timed.start) + sane(timed.duration), of);
  }

  void end_iteration(const RunFollower& run, bool complete) {
    const std::uint64_t number = run.iteration() - (complete ? 1U : 0U);
    if (touched_) {
      const std::uint64_t on = track_of(TrackKind::iterations, 0, "iterations");
      ProtoMessage of;
      of.number(event::kType, event::kBegin).number(event::kTrack, on);
      const bool after = !complete && run.iterations().begun == 0;
      of.text(event::kName, number == 0 ? std::string("before the first iteration")
                            : after     ? std::string("after the last iteration")
                                        : "iteration " + std::to_string(number));
      slice(on, std::max(began_, first_time_), run.time(), of);
    }
    began_ = run.time();
    touched_ = false;
  }

  void count(const RunFollower& run, Nanoseconds time) {
    const std::vector<DeviceTotals>& devices = run.devices();
    if (shown_.size() < devices.size()) shown_.resize(devices.size());
    for (std::uint32_t i = 0; i < devices.size(); ++i) {
      count_one(i, Counter::resident, "resident", devices[i].resident, shown_[i].resident, time);
      count_one(i, Counter::on_host, "on host", devices[i].on_host, shown_[i].on_host, time);
      count_one(i, Counter::plain, "plain", devices[i].plain, shown_[i].plain, time);
    }
  }

  void count_one(std::uint32_t device, Counter which, const char* name, Bytes now, Bytes& shown, Nanoseconds time) {
    const std::uint32_t index = device * 4 + static_cast<std::uint32_t>(which);
    if (now == shown && known_.contains(uuid(TrackKind::counter, index))) return;
    shown = now;
    const std::uint64_t on =
        track_of(TrackKind::counter, index, "device " + std::to_string(device) + ": " + std::string(name));
    ProtoMessage of;
    of.number(event::kType, event::kCounterType).number(event::kTrack, on);
    put_event(time, of.signed_number(event::kCounterValue, static_cast<std::int64_t>(now.count())));
  }

  OutputFile file_;
  ProtoMessage whole_, packet_, new_names_;
  std::uint64_t base_ = 0;
  std::uint32_t sequence_ = 1;
  std::unordered_map<std::uint64_t, bool> known_;             // tracks
  std::unordered_map<std::string, std::uint64_t> names_;      // interned
  std::unordered_map<std::uint64_t, Nanoseconds> free_from_;  // by track: the end of its last slice
  std::vector<DeviceTotals> shown_;
  std::vector<std::uint32_t> streams_;  // of the latest launches
  std::vector<Pending> pending_;
  RuleWords rules_;
  Nanoseconds began_;
  Nanoseconds first_time_ = kNever;  // in the window
  bool touched_ = false;
};

}  // namespace

std::unique_ptr<Exporter> make_perfetto_exporter() { return std::make_unique<PerfettoExporter>(); }

}  // namespace spillway::tools
