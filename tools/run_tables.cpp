#include "tools/run_tables.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "policy/cost_table.hpp"
#include "tools/names.hpp"
#include "tools/sane_time.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

template <class Row>
bool cost_more(const Row& a, const Row& b) {
  if (a.traffic.crossed() != b.traffic.crossed()) return a.traffic.crossed() > b.traffic.crossed();
  return a.host_bytes > b.host_bytes;
}

}  // namespace

void Traffic::add(const FinishedMove& move) {
  ++moves;
  in += move.in;
  out += move.out;
  populated += move.populated;
  refetched += move.refetched;
  add_sane(took, move.end.took);
}

Nanoseconds RunTables::stall_estimate(Bytes bytes) const {
  if (link_in <= 0) return {};
  return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(bytes.count()) / link_in * 1e9));
}

Nanoseconds RunTables::stall_estimate(const IterationRow& row) const {
  return std::min(stall_estimate(row.host_bytes), row.time());
}

KernelRow& RunTableMaker::kernel(std::uint32_t function) {
  if (kernels_.size() <= function) kernels_.resize(function + 1);
  return kernels_[function];
}

IterationRow* RunTableMaker::iteration(std::uint64_t number) {
  return number < iterations_.size() ? &iterations_[number] : nullptr;
}

void RunTableMaker::add_move(const FinishedMove& move, const RunFollower& run) {
  if (move.end.outcome != MoveOutcome::done) return;
  tables_.total.add(move);
  tables_.classes[move.origin.span_class].add(move);
  tables_.rules[move.origin.rule].add(move);
  kernel(move.origin.function).traffic.add(move);
  if (IterationRow* row = iteration(move.origin.iteration)) row->traffic.add(move);
  if (run.find(move.range.allocation) != nullptr) allocations_[move.range.allocation].add(move);
}

void RunTableMaker::launched(const RunFollower& run) {
  const std::uint32_t function = run.launched().value;
  KernelRow& row = function == 0 ? graphs_ : kernel(function);
  ++row.launches;
  row.host_bytes += run.host_bytes();
  tables_.host_bytes += run.host_bytes();
  if (IterationRow* now = iteration(run.iteration_of_record())) {
    ++now->launches;
    now->host_bytes += run.host_bytes();
  }
  if (run.iteration_ended()) end_iteration(run);
}

void RunTableMaker::end_iteration(const RunFollower& run) {
  if (IterationRow* ended = iteration(run.iteration() - 1)) {
    ended->end = run.time();
    ended->complete = true;
  }
  if (iterations_.size() >= kMostIterations) {
    ++tables_.iterations_left_out;
    return;
  }
  IterationRow next;
  next.number = run.iteration();
  next.begin = run.time();
  iterations_.push_back(next);
}

AllocationRow RunTableMaker::row_of(const FollowedAllocation& of, const RunFollower& run) {
  AllocationRow row;
  row.id = of.id;
  row.device = of.device;
  row.bytes = of.bytes;
  row.kind = of.kind;
  row.backing = of.backing;
  row.span_class = of.span_class();
  row.in_hbm = of.in_hbm;
  row.on_host = of.on_host;
  row.host_bytes = of.host_bytes;
  row.library = run.library(of.caller);
  if (const auto traffic = allocations_.find(of.id); traffic != allocations_.end()) row.traffic = traffic->second;
  return row;
}

void RunTableMaker::forget(const FollowedAllocation& freed, const RunFollower& run) {
  const auto traffic = allocations_.find(freed.id);
  if (traffic == allocations_.end()) return;
  gone_.push_back(row_of(freed, run));
  gone_.back().freed = true;
  allocations_.erase(traffic);
  if (gone_.size() < 2 * kKept) return;
  std::nth_element(gone_.begin(), gone_.begin() + kKept, gone_.end(), cost_more<AllocationRow>);
  gone_.resize(kKept);
}

void RunTableMaker::add(const trace::Record& record, const RunFollower& run) {
  if (record.kind != trace::RecordKind::event) return;
  const EventBody& body = record.event.body;
  for (const UselessMove& useless : run.useless()) {
    const MoveOrigin& origin = useless.origin;
    tables_.total.useless += useless.bytes;
    tables_.classes[origin.span_class].useless += useless.bytes;
    tables_.rules[origin.rule].useless += useless.bytes;
    kernel(origin.function).traffic.useless += useless.bytes;
    if (IterationRow* row = iteration(origin.iteration)) row->traffic.useless += useless.bytes;
    allocations_[useless.allocation].useless += useless.bytes;
  }
  if (std::holds_alternative<Launched>(body) || std::holds_alternative<GraphLaunched>(body)) {
    launched(run);
  } else if (const FinishedMove* move = run.finished_move()) {
    add_move(*move, run);
  } else if (const FollowedAllocation* freed = run.freed()) {
    forget(*freed, run);
  } else if (const auto* timed = std::get_if<KernelTimed>(&body)) {
    KernelRow& row = kernel(run.function_at(timed->launch).value);
    add_sane(row.timed, timed->duration);
    ++row.timed_launches;
  } else if (const auto* pages = std::get_if<PagesObserved>(&body)) {
    IterationRow* const row = iteration(run.iteration());
    if (row != nullptr && pages->traffic == PageTraffic::gpu_fault) ++row->faults;
  }
}

RunTables RunTableMaker::finish(const RunFollower& run, const trace::TraceHeader& header) {
  tables_.rule_words = rule_words(header);
  tables_.rules_seen = header.rules;
  constexpr std::size_t kMostRules = std::numeric_limits<std::uint16_t>::max();
  for (std::size_t rule = 1; rule <= std::min(header.rules.size(), kMostRules); ++rule)
    tables_.rules.try_emplace(static_cast<std::uint16_t>(rule));
  tables_.policy_file = policy_file_of(header);
  std::vector<std::string> ignored;
  tables_.link_in = read_costs(header.cost_table, ignored).link_in;
  if (!iterations_.back().complete) iterations_.back().end = run.time();
  tables_.iterations = std::move(iterations_);
  tables_.iterations_seen = run.iterations();
  for (std::uint32_t id = 0; id < kernels_.size(); ++id) {
    KernelRow& row = kernels_[id];
    if (row.launches + row.traffic.moves == 0 && row.traffic.useless == Bytes()) continue;
    row.name = id == 0 ? "no kernel" : run.name({id});
    if (row.name.empty()) row.name = "(function " + std::to_string(id) + ")";
    tables_.kernels.push_back(std::move(row));
  }
  graphs_.name = "(graphs and unknown)";
  if (graphs_.launches > 0) tables_.kernels.push_back(std::move(graphs_));
  std::stable_sort(tables_.kernels.begin(), tables_.kernels.end(), [](const KernelRow& a, const KernelRow& b) {
    return cost_more(a, b) || (!cost_more(b, a) && a.launches > b.launches);
  });
  tables_.allocations = std::move(gone_);
  for (const auto& [id, allocation] : run.live()) {
    if (allocation.settled && (allocation.backing == Backing::managed || allocations_.contains(id))) {
      tables_.allocations.push_back(row_of(allocation, run));
    }
  }
  std::sort(tables_.allocations.begin(), tables_.allocations.end(), [](const AllocationRow& a, const AllocationRow& b) {
    return cost_more(a, b) || (!cost_more(b, a) && a.id < b.id);
  });
  return std::move(tables_);
}

}  // namespace spillway::tools
