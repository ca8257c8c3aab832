#include "tools/rule_coverage.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace spillway::tools {

using namespace policy;

RuleCoverage::RuleCoverage(std::vector<Rule> rules) : matcher_(std::move(rules)) {
  report_.rules.resize(matcher_.rules().size());
}

void RuleCoverage::see(const Event& event) {
  if (const auto* function = std::get_if<FunctionSeen>(&event.body)) {
    matcher_.function_seen(function->function, function->name);
    ++epoch_;
  } else if (const auto* device = std::get_if<DeviceSeen>(&event.body)) {
    report_.pinned[device->device].device = *device;
  } else if (const auto* caller = std::get_if<CallerSeen>(&event.body)) {
    callers_[caller->caller] = caller->library;
  } else if (const auto* request = std::get_if<AllocationRequested>(&event.body)) {
    requested(*request);
  } else if (const auto* result = std::get_if<AllocationSettled>(&event.body)) {
    settled(*result);
  } else if (const auto* free = std::get_if<Freed>(&event.body)) {
    if (free->result.ok()) freed(free->allocation);
  } else if (const auto* shape = std::get_if<LaunchShapeSeen>(&event.body)) {
    shapes_[shape->shape] = {shape->function, shape->arguments, 0, {}, {}};
  } else if (const auto* launch = std::get_if<Launched>(&event.body)) {
    std::vector<std::size_t> deciding;
    launched(launch->shape, launch->stream, deciding);
    count_launch(deciding);
  } else if (const auto* graph = std::get_if<GraphSeen>(&event.body)) {
    graphs_[graph->graph] = graph->shapes;
  } else if (const auto* graph_launch = std::get_if<GraphLaunched>(&event.body)) {
    std::vector<std::size_t> deciding;
    for (const LaunchShapeId id : graphs_[graph_launch->graph]) launched(id, graph_launch->stream, deciding);
    count_launch(deciding);
  }
}

void RuleCoverage::see(const Decision& decision) {
  const std::uint16_t number = decision.cause.span_class;
  if (number == 0 || number >= kSpanClassNames.size()) return;
  const auto span_class = static_cast<SpanClass>(number);
  if (const auto* move = std::get_if<MoveRange>(&decision.body)) {
    name_class(move->allocation, move->offset, {move->bytes, span_class});
  } else if (const auto* advice = std::get_if<AdviseRange>(&decision.body)) {
    name_class(advice->allocation, advice->offset, {advice->bytes, span_class});
  }
}

void RuleCoverage::name_class(AllocationId id, Bytes offset, ClassRange range) {
  report_.names_classes = true;
  const auto allocation = allocations_.find(id);
  if (allocation == allocations_.end()) return;
  ClassRange& known = allocation->second.classes[offset.count()];
  if (known == range) return;
  known = range;
  ++epoch_;
}

void RuleCoverage::requested(const AllocationRequested& request) {
  const AllocationOrder order{++requests_};
  const auto caller = callers_.find(request.caller);
  const std::string_view library = caller == callers_.end() ? std::string_view() : caller->second;
  Allocation& allocation = allocations_[request.allocation];
  forget(allocation);
  allocation = {request.bytes,
                {},
                request.device,
                false,
                matcher_.allocation_rules(request, library, order),
                std::vector<bool>(report_.rules.size()),
                0,
                {}};
  for (std::size_t rule = 0; rule < report_.rules.size(); ++rule)
    report_.rules[rule].allowed = report_.rules[rule].allowed || allocation.allowed.has(rule);
  ++report_.allocations;
  report_.bytes += request.bytes;
  ++undecided_;
  undecided_bytes_ += request.bytes;
  decide(allocation, matcher_.all_for_allocation(request, allocation.allowed));
}

void RuleCoverage::settled(const AllocationSettled& settled) {
  const auto found = allocations_.find(settled.allocation);
  if (found == allocations_.end()) return;
  if (!settled.result.ok()) {
    forget(found->second);
    allocations_.erase(found);
    return;
  }
  found->second.address = settled.address;
  by_address_[settled.address.value] = settled.allocation;
  ++epoch_;
}

void RuleCoverage::freed(AllocationId id) {
  const auto found = allocations_.find(id);
  if (found == allocations_.end()) return;
  // The address may have been given out again before this free was noted.
  const auto place = by_address_.find(found->second.address.value);
  if (place != by_address_.end() && place->second == id) by_address_.erase(place);
  forget(found->second);
  allocations_.erase(found);
  ++epoch_;
}

RuleCoverage::Allocation* RuleCoverage::at(Address address) {
  auto next = by_address_.upper_bound(address.value);
  if (next == by_address_.begin()) return nullptr;
  --next;
  const auto found = allocations_.find(next->second);
  if (found == allocations_.end() || address.value - next->first >= found->second.bytes.count()) return nullptr;
  return &found->second;
}

void RuleCoverage::launched(LaunchShapeId id, StreamId stream, std::vector<std::size_t>& deciding) {
  const auto found = shapes_.find(id);
  if (found == shapes_.end()) return;
  Shape& shape = found->second;
  if (shape.epoch != epoch_ || shape.stream != stream) resolve(shape, stream);
  deciding.insert(deciding.end(), shape.deciding.begin(), shape.deciding.end());
}

void RuleCoverage::count_launch(std::vector<std::size_t>& deciding) {
  ++report_.launches;
  std::sort(deciding.begin(), deciding.end());
  deciding.erase(std::unique(deciding.begin(), deciding.end()), deciding.end());
  for (const std::size_t rule : deciding) ++report_.rules[rule].launches;
}

void RuleCoverage::resolve(Shape& shape, StreamId stream) {
  shape.epoch = epoch_;
  shape.stream = stream;
  shape.deciding.clear();
  for (const PointerArgument& argument : shape.arguments) {
    Allocation* const allocation = at(argument.address);
    if (allocation == nullptr) continue;
    const std::uint64_t offset = argument.address.value - allocation->address.value;
    TouchFacts facts{allocation->allowed, SpanClass::unknown, stream};
    auto range = allocation->classes.upper_bound(offset);
    if (range != allocation->classes.begin()) {
      --range;
      if (offset - range->first < range->second.bytes.count()) facts.span_class = range->second.span_class;
    }
    const RuleSet holding = matcher_.all_for_argument(shape.function, argument.index, facts);
    decide(*allocation, holding);
    if (const std::size_t first = holding.first(); first < report_.rules.size()) shape.deciding.push_back(first);
  }
  std::sort(shape.deciding.begin(), shape.deciding.end());
  shape.deciding.erase(std::unique(shape.deciding.begin(), shape.deciding.end()), shape.deciding.end());
}

void RuleCoverage::decide(Allocation& allocation, const RuleSet& holding) {
  const std::size_t first = holding.first();
  if (first >= report_.rules.size()) return;
  for (std::size_t rule = first + 1; rule < report_.rules.size(); ++rule) {
    if (!holding.has(rule)) continue;
    RuleUse& use = report_.rules[rule];
    ++use.lost;
    if (use.lost_to == 0) use.lost_to = static_cast<std::uint16_t>(first + 1);
  }
  if (allocation.decided_by[first]) return;
  if (matcher_.rules()[first].action.place == RulePlace::device) pin(allocation);
  ++allocation.deciders;
  if (allocation.deciders == 1) {
    --undecided_;
    undecided_bytes_ -= allocation.bytes;
    if (allocation.bytes < kChunk) ++report_.small.allocations, report_.small.bytes += allocation.bytes;
  } else if (allocation.deciders == 2) {
    ++report_.shared;
  }
  allocation.decided_by[first] = true;
  ++report_.rules[first].allocations;
  report_.rules[first].bytes += allocation.bytes;
}

void RuleCoverage::pin(Allocation& allocation) {
  if (allocation.pinned) return;
  allocation.pinned = true;
  PinnedUse& use = report_.pinned[allocation.device];
  use.live += allocation.bytes;
  use.peak = std::max(use.peak, use.live);
}

void RuleCoverage::forget(const Allocation& allocation) {
  if (allocation.pinned) report_.pinned[allocation.device].live -= allocation.bytes;
}

CoverageReport RuleCoverage::report() const {
  CoverageReport out = report_;
  out.no_rule.allocations = undecided_;
  out.no_rule.bytes = undecided_bytes_;
  return out;
}

}  // namespace spillway::tools
