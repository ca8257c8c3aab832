// The trace as a SQLite database: docs/sqlite_schema.md. What names things (functions, shapes, allocations, devices) is
// written whole; what happened, only within the window.
#include <charconv>
#include <cstdlib>
#include <unordered_map>
#include <utility>
#include <variant>

#include "policy/cost_table.hpp"
#include "policy/demangle.hpp"
#include "policy/explain.hpp"
#include "tools/exporter.hpp"
#include "tools/names.hpp"
#include "tools/output_file.hpp"
#include "tools/run_name.hpp"
#include "tools/sqlite_database.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

// The file names its maker in bytes 68 to 71 of its header: "swlt".
constexpr const char* kSchema = R"(
PRAGMA application_id = 0x73776c74;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE rule (rule INTEGER PRIMARY KEY, name TEXT, file TEXT, line INTEGER);
CREATE TABLE device (device INTEGER PRIMARY KEY, name TEXT, total_bytes INTEGER, can_spill INTEGER);
CREATE TABLE device_end (device INTEGER PRIMARY KEY, budget_bytes INTEGER, resident_bytes INTEGER, on_host_bytes INTEGER, plain_bytes INTEGER,
  managed_bytes INTEGER, reserved_bytes INTEGER, resident_peak_bytes INTEGER, moved_in_bytes INTEGER,
  moved_out_bytes INTEGER);
CREATE TABLE function (function INTEGER PRIMARY KEY, name TEXT, demangled TEXT);
CREATE TABLE shape (shape INTEGER PRIMARY KEY, function INTEGER, threads INTEGER);
CREATE TABLE shape_pointer (shape INTEGER, argument INTEGER, address INTEGER);
CREATE TABLE graph_shape (graph INTEGER, position INTEGER, shape INTEGER, PRIMARY KEY (graph, position));
CREATE TABLE allocation (allocation INTEGER PRIMARY KEY, device INTEGER, kind TEXT, caller TEXT,
  requested_bytes INTEGER, bytes INTEGER, address INTEGER, backing TEXT, class TEXT, asked_ns INTEGER,
  freed_ns INTEGER, outcome TEXT);
CREATE TABLE launch (launch INTEGER PRIMARY KEY, time_ns INTEGER, iteration INTEGER, stream INTEGER, shape INTEGER,
  graph INTEGER, function INTEGER, host_bytes INTEGER);
CREATE TABLE copy (time_ns INTEGER, iteration INTEGER, launch INTEGER, stream INTEGER, kind TEXT, destination INTEGER,
  source INTEGER, bytes INTEGER);
CREATE TABLE decision (decision INTEGER PRIMARY KEY, time_ns INTEGER, iteration INTEGER, launch INTEGER, kind TEXT,
  allocation INTEGER, offset INTEGER, bytes INTEGER, place TEXT, urgency TEXT, reason TEXT, rule INTEGER, class TEXT,
  worth REAL, cause_launch INTEGER, sentence TEXT);
CREATE TABLE move (decision INTEGER PRIMARY KEY, decided_ns INTEGER, finished_ns INTEGER, took_ns INTEGER,
  iteration INTEGER, device INTEGER, allocation INTEGER, offset INTEGER, bytes INTEGER, place TEXT, outcome TEXT,
  reason TEXT, rule INTEGER, class TEXT, function INTEGER, in_bytes INTEGER, out_bytes INTEGER,
  populated_bytes INTEGER, refetched_bytes INTEGER);
CREATE TABLE useless (time_ns INTEGER, allocation INTEGER, iteration INTEGER, rule INTEGER, class TEXT,
  function INTEGER, bytes INTEGER);
CREATE TABLE iteration (iteration INTEGER PRIMARY KEY, begin_ns INTEGER, end_ns INTEGER, complete INTEGER);
CREATE TABLE kernel_time (launch INTEGER PRIMARY KEY, start_ns INTEGER, duration_ns INTEGER);
CREATE TABLE pages (time_ns INTEGER, iteration INTEGER, traffic TEXT, address INTEGER, bytes INTEGER);
CREATE TABLE dropped (time_ns INTEGER, events INTEGER);
)";

constexpr const char* kIndexes = R"(
CREATE INDEX launch_by_function ON launch (function);
CREATE INDEX launch_by_iteration ON launch (iteration);
CREATE INDEX launch_by_time ON launch (time_ns);
CREATE INDEX decision_by_allocation ON decision (allocation);
CREATE INDEX decision_by_reason ON decision (kind, reason);
CREATE INDEX move_by_allocation ON move (allocation);
CREATE INDEX move_by_iteration ON move (iteration);
CREATE INDEX move_by_time ON move (finished_ns);
CREATE INDEX shape_pointer_by_shape ON shape_pointer (shape);
CREATE INDEX shape_by_function ON shape (function);
)";

class SqliteExporter : public Exporter {
 public:
  [[nodiscard]] FileMark mark() const override { return {"swlt", 68, 68}; }
  [[nodiscard]] std::string run_of(const std::string& path) const override {
    const auto pid = read_value(path, "SELECT value FROM meta WHERE key = 'pid'");
    const auto host = read_value(path, "SELECT value FROM meta WHERE key = 'host'");
    const auto start = read_value(path, "SELECT value FROM meta WHERE key = 'start'");
    if (!pid || !host || !start) return {};
    return run_name(*host, std::strtoull(pid->c_str(), nullptr, 10), *start);
  }
  std::optional<std::string> open(const std::string& path) override {
    if (auto problem = file_.reserve(path)) return problem;
    if (auto problem = database_.create(file_.partial())) return problem;
    database_.run(kSchema);
    const auto into = [this](const char* table, int values) { return &database_.insert_into(table, values); };
    meta_ = into("meta", 2);
    setting_ = into("setting", 2);
    rule_ = into("rule", 4);
    device_ = into("device", 4);
    device_end_ = into("device_end", 10);
    function_ = into("function", 3);
    shape_ = into("shape", 3);
    pointer_ = into("shape_pointer", 3);
    graph_ = into("graph_shape", 3);
    allocation_ = into("allocation", 12);
    launch_ = into("launch", 8);
    copy_ = into("copy", 8);
    decision_ = into("decision", 16);
    move_ = into("move", 19);
    useless_ = into("useless", 7);
    iteration_ = into("iteration", 4);
    kernel_time_ = into("kernel_time", 3);
    pages_ = into("pages", 5);
    dropped_ = into("dropped", 2);
    return database_.failed() ? database_.close() : std::nullopt;
  }

  void begin(const trace::TraceHeader& header) override {
    rules_ = rule_words(header);
    const std::string file = policy_file_of(header);
    for (std::size_t i = 0; i < header.rules.size(); ++i) {
      rule_->integer(i + 1).text(header.rules[i].name).text(file).integer(header.rules[i].line).put();
    }
    meta("schema_version", "1");
    meta("program", header.program);
    std::string arguments;
    for (const std::string& argument : header.arguments) arguments += (arguments.empty() ? "" : " ") + argument;
    meta("command_line", arguments);
    meta("pid", std::to_string(header.pid));
    meta("host", header.host);
    meta("rank", header.rank);
    meta("start", header.start);
    meta("build", header.build);
    meta("driver_version", header.driver_version);
    std::vector<std::string> ignored;
    char rate[32];
    const double link = read_costs(header.cost_table, ignored).link_in;
    meta("link_in_bytes_per_second", std::string(rate, std::to_chars(rate, rate + sizeof rate, link).ptr));
    for (const auto& [key, value] : header.settings) setting_->text(key).text(value).put();
    for (const DeviceSeen& device : header.devices) see(device);
  }

  void add(const trace::Record& record, RunFollower& run, bool inside) override {
    if (record.kind == trace::RecordKind::decision) {
      decide(record, run, inside);
    } else {
      std::visit([&](const auto& event) { see(event, record.time, run, inside); }, record.event.body);
      if (const FollowedAllocation* gone = run.freed()) put(*gone, run, true, "freed");
      for (const UselessMove& of : run.useless()) {
        if (inside) useless(of, record.time);
      }
    }
    touched_ = touched_ || inside;
    if (run.iteration_ended()) end_iteration(run, true);
  }

  std::optional<std::string> finish(const trace::TraceReader& reader, RunFollower& run) override {
    for (const auto& [id, allocation] : run.live()) put(allocation, run, false, allocation.settled ? "live" : "asked");
    end_iteration(run, false);
    for (std::uint32_t i = 0; i < run.devices().size(); ++i) put_end({i}, run.devices()[i]);
    if (const auto& end = reader.end()) {
      for (const trace::DeviceEnd& device : end->devices) put_end(device.device, device.totals);
    }
    meta("completeness", completeness(reader));
    meta("duration_ns", std::to_string(run.time().count()));
    if (const auto& end = reader.end()) meta("end", end->reason);
    database_.run(kIndexes);
    auto problem = database_.close();
    return problem ? problem : file_.finish();
  }
  [[nodiscard]] bool failed() const override { return database_.failed(); }

 private:
  static std::uint64_t ns(Nanoseconds time) { return static_cast<std::uint64_t>(time.count()); }
  void meta(const char* key, const std::string& value) { meta_->text(key).text(value).put(); }

  void see(const DeviceSeen& device) {
    device_->integer(device.device.value)
        .text(device.name)
        .integer(device.total.count())
        .integer(device.can_spill ? 1 : 0);
    device_->put();
  }

  void put_end(DeviceIndex device, const DeviceTotals& of) {
    device_end_->integer(device.value);
    for (const Bytes bytes : {of.budget, of.resident, of.on_host, of.plain, of.managed, of.reserved, of.resident_peak,
                              of.moved_in, of.moved_out}) {
      device_end_->integer(bytes.count());
    }
    device_end_->put();
  }

  void put(const FollowedAllocation& of, const RunFollower& run, bool freed, const char* outcome) {
    const auto asked = requested_.find(of.id);
    allocation_->integer(of.id.value).integer(of.device.value).text(csv_name(of.kind)).text(run.library(of.caller));
    allocation_->integer(asked == requested_.end() ? of.bytes.count() : asked->second);
    allocation_->integer_or_null(of.settled, of.bytes.count()).integer_or_null(of.settled, of.address.value);
    allocation_->text(of.settled ? backing_name(of.backing) : "").text(span_class_name(of.span_class()));
    allocation_->integer(ns(of.asked)).integer_or_null(freed, ns(run.time())).text(outcome).put();
    if (freed) requested_.erase(of.id);
  }

  void useless(const UselessMove& of, Nanoseconds time) {
    useless_->integer(ns(time)).integer(of.allocation.value).integer(of.origin.iteration).integer(of.origin.rule);
    useless_->text(span_class_name(of.origin.span_class)).integer(of.origin.function).integer(of.bytes.count()).put();
  }

  // The iteration that has just ended, or is open at the end of the trace; if anything of it was in the window.
  void end_iteration(const RunFollower& run, bool complete) {
    const std::uint64_t number = run.iteration() - (complete ? 1U : 0U);
    if (touched_) {
      iteration_->integer(number).integer(ns(began_)).integer(ns(run.time())).integer(complete ? 1 : 0).put();
    }
    began_ = run.time();
    touched_ = false;
  }

  void decide(const trace::Record& record, const RunFollower& run, bool inside) {
    const Decision& decision = record.decision;
    if (const auto* refuse = std::get_if<RefuseAllocation>(&decision.body)) refused(*refuse, record, run);
    if (!inside) return;
    const AllocationId allocation = about(decision.body);
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::string place;
    std::string urgency;
    std::visit(
        [&](const auto& body) {
          if constexpr (requires { body.offset; }) {
            offset = body.offset.count();
            bytes = body.bytes.count();
          }
          if constexpr (requires { body.to; }) place = placement_name(body.to);
          if constexpr (requires { body.urgency; }) urgency = urgency_name(body.urgency);
          if constexpr (requires { body.backing; }) place = backing_name(body.backing);
        },
        decision.body);
    const bool answers = decision.body.index() < 2;  // BackAllocation, RefuseAllocation: all that was asked for
    if (const auto asked = requested_.find(allocation); answers && asked != requested_.end()) bytes = asked->second;
    const Cause& cause = decision.cause;
    decision_->integer(decision.id.value).integer(ns(record.time)).integer(run.iteration()).integer(run.launches());
    decision_->text(decision_kind_name(decision.body)).integer_or_null(bool(allocation), allocation.value);
    decision_->integer(offset).integer(bytes).text(place).text(urgency).text(name_of(cause.reason)).integer(cause.rule);
    decision_->text(span_class_name(cause.span_class)).real(static_cast<double>(cause.worth));
    decision_->integer_or_null(bool(cause.launch), cause.launch.value).text(explain(decision, rules_)).put();
  }

  // RunFollower has forgotten it by now.
  void refused(const RefuseAllocation& refuse, const trace::Record& record, const RunFollower& run) {
    const auto asked = requests_.find(refuse.allocation);
    if (asked == requests_.end()) return;
    FollowedAllocation of;
    of.id = refuse.allocation;
    of.device = asked->second.device;
    of.kind = asked->second.kind;
    of.caller = asked->second.caller;
    of.bytes = asked->second.bytes;
    of.asked = record.time;
    put(of, run, false, "refused");
    requests_.erase(asked);
  }

  void see(const DeviceSeen& event, Nanoseconds /*time*/, RunFollower& /*run*/, bool /*inside*/) { see(event); }
  void see(const FunctionSeen& event, Nanoseconds /*time*/, RunFollower& /*run*/, bool /*inside*/) {
    function_->integer(event.function.value).text(event.name).text(demangled(event.name)).put();
  }
  void see(const LaunchShapeSeen& event, Nanoseconds /*time*/, RunFollower& /*run*/, bool /*inside*/) {
    shape_->integer(event.shape.value).integer(event.function.value).integer(event.threads).put();
    for (const PointerArgument& argument : event.arguments) {
      pointer_->integer(event.shape.value).integer(argument.index).integer(argument.address.value).put();
    }
  }
  void see(const GraphSeen& event, Nanoseconds /*time*/, RunFollower& /*run*/, bool /*inside*/) {
    for (std::size_t i = 0; i < event.shapes.size(); ++i) {
      graph_->integer(event.graph.value).integer(i).integer(event.shapes[i].value).put();
    }
  }
  void see(const AllocationRequested& event, Nanoseconds /*time*/, RunFollower& /*run*/, bool /*inside*/) {
    requested_[event.allocation] = event.bytes.count();
    requests_[event.allocation] = event;
  }
  void see(const AllocationSettled& event, Nanoseconds time, RunFollower& run, bool /*inside*/) {
    const auto asked = requests_.find(event.allocation);
    if (asked == requests_.end()) return;
    if (!event.result.ok()) {
      FollowedAllocation of;
      of.id = event.allocation;
      of.device = asked->second.device;
      of.kind = asked->second.kind;
      of.caller = asked->second.caller;
      of.bytes = asked->second.bytes;
      of.asked = time;
      put(of, run, false, "failed");
      requested_.erase(event.allocation);
    }
    requests_.erase(asked);
  }
  void see(const Launched& event, Nanoseconds time, RunFollower& run, bool inside) {
    if (!inside) return;
    launch_->integer(run.launches()).integer(ns(time)).integer(run.iteration_of_record());
    launch_->integer(event.stream.value).integer(event.shape.value).integer_or_null(false, 0);
    launch_->integer(run.launched().value).integer(run.host_bytes().count()).put();
  }
  void see(const GraphLaunched& event, Nanoseconds time, RunFollower& run, bool inside) {
    if (!inside) return;
    launch_->integer(run.launches()).integer(ns(time)).integer(run.iteration_of_record());
    launch_->integer(event.stream.value).integer_or_null(false, 0).integer(event.graph.value);
    launch_->integer(0).integer(run.host_bytes().count()).put();
  }
  void see(const Copied& event, Nanoseconds time, RunFollower& run, bool inside) {
    if (!inside) return;
    copy_->integer(ns(time)).integer(run.iteration()).integer(run.launches()).integer(event.stream.value);
    copy_->text(copy_name(event.kind)).integer(event.destination.value).integer(event.source.value);
    copy_->integer(event.bytes.count()).put();
  }
  void see(const Filled& event, Nanoseconds time, RunFollower& run, bool inside) {
    if (!inside) return;
    copy_->integer(ns(time)).integer(run.iteration()).integer(run.launches()).integer(event.stream.value);
    copy_->text("fill").integer(event.address.value).integer_or_null(false, 0).integer(event.bytes.count()).put();
  }
  void see(const MoveFinished& event, Nanoseconds time, RunFollower& run, bool inside) {
    const FinishedMove* const move = run.finished_move();
    if (!inside || move == nullptr) return;
    move_->integer(event.decision.value).integer(ns(move->decided)).integer(ns(time)).integer(ns(event.took));
    move_->integer(move->origin.iteration).integer(move->device.value).integer(move->range.allocation.value);
    move_->integer(move->range.offset.count()).integer(move->range.bytes.count()).text(placement_name(move->range.to));
    move_->text(outcome_name(event.outcome)).text(name_of(move->cause.reason)).integer(move->cause.rule);
    move_->text(span_class_name(move->cause.span_class)).integer(move->origin.function).integer(move->in.count());
    move_->integer(move->out.count()).integer(move->populated.count()).integer(move->refetched.count()).put();
  }
  void see(const KernelTimed& event, Nanoseconds /*time*/, RunFollower& /*run*/, bool inside) {
    if (inside) kernel_time_->integer(event.launch.value).integer(ns(event.start)).integer(ns(event.duration)).put();
  }
  void see(const PagesObserved& event, Nanoseconds time, RunFollower& run, bool inside) {
    if (!inside) return;
    pages_->integer(ns(time)).integer(run.iteration()).text(page_traffic_name(event.traffic));
    pages_->integer(event.address.value).integer(event.bytes.count()).put();
  }
  void see(const EventsDropped& event, Nanoseconds time, RunFollower& /*run*/, bool inside) {
    if (inside) dropped_->integer(ns(time)).integer(event.count).put();
  }
  template <class Other>
  void see(const Other& /*event*/, Nanoseconds /*time*/, RunFollower& /*run*/, bool /*inside*/) {}

  OutputFile file_;
  SqliteDatabase database_;
  SqliteInsert *meta_ = nullptr, *rule_ = nullptr, *setting_ = nullptr, *device_ = nullptr, *device_end_ = nullptr,
               *function_ = nullptr, *shape_ = nullptr, *pointer_ = nullptr, *graph_ = nullptr, *allocation_ = nullptr,
               *launch_ = nullptr, *copy_ = nullptr, *decision_ = nullptr, *move_ = nullptr, *useless_ = nullptr,
               *iteration_ = nullptr, *kernel_time_ = nullptr, *pages_ = nullptr, *dropped_ = nullptr;
  std::unordered_map<AllocationId, std::uint64_t> requested_;       // bytes asked for, of those alive
  std::unordered_map<AllocationId, AllocationRequested> requests_;  // not yet answered
  RuleWords rules_;
  Nanoseconds began_;     // the iteration that runs
  bool touched_ = false;  // something of it was in the window
};

}  // namespace

std::unique_ptr<Exporter> make_sqlite_exporter() { return std::make_unique<SqliteExporter>(); }

}  // namespace spillway::tools
