// CSV: one row a record, the same columns for all (docs/exports.md). RFC 4180: fields with a comma, a quote or a line
// end are quoted. Lines end with a line feed.
#include <array>
#include <charconv>
#include <utility>
#include <variant>

#include "policy/demangle.hpp"
#include "policy/explain.hpp"
#include "policy/span_class.hpp"
#include "tools/exporter.hpp"
#include "tools/names.hpp"
#include "tools/output_file.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

enum class Column : std::uint8_t {
  time_ns,
  iteration,
  launch,
  kind,
  device,
  stream,
  allocation,
  address,
  offset,
  bytes,
  name,
  place,
  decision,
  reason,
  rule,
  span_class,
  outcome,
  took_ns,
  in_bytes,
  out_bytes,
  host_bytes,
  text,
  count_of_them
};
constexpr std::size_t kColumns = static_cast<std::size_t>(Column::count_of_them);
constexpr const char* kTitles =
    "time_ns,iteration,launch,kind,device,stream,allocation,address,offset,bytes,name,place,decision,reason,rule,class,"
    "outcome,took_ns,in_bytes,out_bytes,host_bytes,text\n";

class Row {
 public:
  std::string& operator[](Column column) { return cells_[static_cast<std::size_t>(column)]; }
  template <class Number>
  void number(Column column, Number value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    (*this)[column].assign(digits.data(), end);
  }
  void clear() {
    for (std::string& cell : cells_) cell.clear();
  }
  void append_to(std::string& out) const {
    for (std::size_t i = 0; i < kColumns; ++i) {
      if (i > 0) out += ',';
      const std::string& cell = cells_[i];
      if (cell.find_first_of(",\"\r\n") == std::string::npos) {
        out += cell;
        continue;
      }
      out += '"';
      for (const char letter : cell) out += letter == '"' ? std::string("\"\"") : std::string(1, letter);
      out += '"';
    }
    out += '\n';
  }

 private:
  std::array<std::string, kColumns> cells_;
};

struct CsvEvent {
  Row& row;
  RunFollower& run;

  void allocation(AllocationId id) const { row.number(Column::allocation, id.value); }
  void bytes(Bytes value) const { row.number(Column::bytes, value.count()); }

  bool operator()(const AllocationRequested& event) const {
    row[Column::kind] = "request";
    allocation(event.allocation);
    bytes(event.bytes);
    row.number(Column::device, event.device.value);
    row[Column::name] = run.library(event.caller);
    row[Column::text] = csv_name(event.kind);
    return true;
  }
  bool operator()(const AllocationSettled& event) const {
    row[Column::kind] = "settle";
    allocation(event.allocation);
    bytes(event.bytes);
    row.number(Column::address, event.address.value);
    row[Column::place] = backing_name(event.backing);
    row[Column::outcome] = event.result.ok() ? "done" : "failed";
    return true;
  }
  bool operator()(const FreeRequested& event) const {
    row[Column::kind] = "free_request";
    allocation(event.allocation);
    return true;
  }
  bool operator()(const Freed& event) const {
    row[Column::kind] = "free";
    allocation(event.allocation);
    row[Column::outcome] = event.result.ok() ? "done" : "failed";
    return true;
  }
  bool operator()(const Launched& event) const {
    row[Column::kind] = "launch";
    row.number(Column::stream, event.stream.value);
    row[Column::name] = demangled(run.name(run.launched()));
    row.number(Column::host_bytes, run.host_bytes().count());
    return true;
  }
  bool operator()(const GraphLaunched& event) const {
    row[Column::kind] = "graph_launch";
    row.number(Column::stream, event.stream.value);
    row[Column::name] = "graph " + std::to_string(event.graph.value);
    row.number(Column::host_bytes, run.host_bytes().count());
    return true;
  }
  bool operator()(const Copied& event) const {
    row[Column::kind] = "copy";
    row.number(Column::stream, event.stream.value);
    row.number(Column::address, event.destination.value);
    row[Column::name] = copy_name(event.kind);
    bytes(event.bytes);
    return true;
  }
  bool operator()(const Filled& event) const {
    row[Column::kind] = "fill";
    row.number(Column::stream, event.stream.value);
    row.number(Column::address, event.address.value);
    bytes(event.bytes);
    return true;
  }
  bool operator()(const MoveFinished& event) const {
    row[Column::kind] = "move_end";
    row.number(Column::decision, event.decision.value);
    row[Column::outcome] = outcome_name(event.outcome);
    row.number(Column::took_ns, event.took.count());
    const FinishedMove* const move = run.finished_move();
    if (move == nullptr) return true;
    allocation(move->range.allocation);
    row.number(Column::device, move->device.value);
    row.number(Column::offset, move->range.offset.count());
    bytes(move->range.bytes);
    row[Column::place] = placement_name(move->range.to);
    row.number(Column::in_bytes, move->in.count());
    row.number(Column::out_bytes, move->out.count());
    return true;
  }
  bool operator()(const KernelTimed& event) const {
    row[Column::kind] = "kernel_time";
    row.number(Column::launch, event.launch.value);
    row.number(Column::time_ns, event.start.count());
    row.number(Column::took_ns, event.duration.count());
    row[Column::name] = demangled(run.name(run.function_at(event.launch)));
    return true;
  }
  bool operator()(const PagesObserved& event) const {
    row[Column::kind] = "pages";
    row[Column::name] = page_traffic_name(event.traffic);
    row.number(Column::address, event.address.value);
    bytes(event.bytes);
    return true;
  }
  bool operator()(const EventsDropped& event) const {
    row[Column::kind] = "dropped";
    row[Column::text] = std::to_string(event.count) + " events were dropped here";
    return true;
  }
  template <class Other>
  bool operator()(const Other& /*event*/) const {
    return false;  // names and sizes, which other rows show
  }
};

class CsvExporter : public Exporter {
 public:
  [[nodiscard]] FileMark mark() const override { return {kTitles}; }
  [[nodiscard]] std::string run_of(const std::string& /*path*/) const override { return {}; }
  std::optional<std::string> open(const std::string& path) override {
    auto problem = file_.open(path);
    if (!problem) file_.write(kTitles);
    return problem;
  }
  void begin(const trace::TraceHeader& header) override { rules_ = rule_words(header); }

  void add(const trace::Record& record, RunFollower& run, bool inside) override {
    if (!inside) return;
    row_.clear();
    row_.number(Column::time_ns, record.time.count());
    row_.number(Column::iteration, run.iteration_of_record());
    row_.number(Column::launch, run.launches());
    if (record.kind == trace::RecordKind::decision) {
      put_decision(record.decision);
    } else if (!std::visit(CsvEvent{row_, run}, record.event.body)) {
      return;
    }
    line_.clear();
    row_.append_to(line_);
    file_.write(line_);
  }

  std::optional<std::string> finish(const trace::TraceReader& /*reader*/, RunFollower& /*run*/) override {
    return file_.finish();
  }
  [[nodiscard]] bool failed() const override { return file_.failed(); }

 private:
  void put_decision(const Decision& decision) {
    row_[Column::kind] = decision_kind_name(decision.body);
    row_.number(Column::decision, decision.id.value);
    row_[Column::reason] = name_of(decision.cause.reason);
    if (decision.cause.rule != 0) row_.number(Column::rule, decision.cause.rule);
    if (decision.cause.span_class != 0) row_[Column::span_class] = span_class_name(decision.cause.span_class);
    row_[Column::text] = explain(decision, rules_);
    if (const AllocationId of = about(decision.body)) row_.number(Column::allocation, of.value);
    std::visit(
        [this](const auto& body) {
          if constexpr (requires { body.offset; }) {
            row_.number(Column::offset, body.offset.count());
            row_.number(Column::bytes, body.bytes.count());
          }
          if constexpr (requires { body.to; }) row_[Column::place] = placement_name(body.to);
          if constexpr (requires { body.backing; }) row_[Column::place] = backing_name(body.backing);
          if constexpr (requires { body.missing; }) row_.number(Column::bytes, body.missing.count());
        },
        decision.body);
  }

  OutputFile file_;
  Row row_;
  std::string line_;
  RuleWords rules_;
};

}  // namespace

std::unique_ptr<Exporter> make_csv_exporter() { return std::make_unique<CsvExporter>(); }

}  // namespace spillway::tools
