#include "tools/view/allocations.hpp"

#include <algorithm>

namespace spillway::tools::view {

using namespace policy;

void Allocations::request(Nanoseconds time, const AllocationRequested& event) {
  if (all_.size() >= kMostListed || rows_.contains(event.allocation)) {
    ++not_listed_;
    not_listed_bytes_ += event.bytes;
    return;
  }
  ListedAllocation allocation;
  allocation.id = event.allocation;
  allocation.device = event.device;
  allocation.bytes = event.bytes;
  allocation.kind = event.kind;
  allocation.caller = event.caller;
  allocation.asked = time;
  rows_[event.allocation] = static_cast<Row>(all_.size());
  all_.push_back(std::move(allocation));
}

std::optional<Row> Allocations::row(AllocationId id) const {
  const auto found = rows_.find(id);
  return found == rows_.end() ? std::nullopt : std::optional(found->second);
}

void Allocations::decide(const Decision& decision) {
  const auto at = row(policy::about(decision.body));
  if (!at) return;
  ListedAllocation& of = all_[*at];
  of.said.add(decision);
  const bool refuses = std::holds_alternative<RefuseAllocation>(decision.body);
  const bool backs = std::holds_alternative<BackAllocation>(decision.body);
  if (decision.cause.rule != 0 && !std::holds_alternative<CancelMoves>(decision.body)) of.rule = decision.cause.rule;
  if (backs || refuses) of.reason = decision.cause.reason;
  if (refuses) of.end = ListedAllocation::End::refused;
}

// A plain allocation that nobody will miss gives its row back, if it is the latest; rows in between stay.
void Allocations::drop(Row at) {
  ++not_listed_;
  not_listed_bytes_ += all_[at].bytes;
  rows_.erase(all_[at].id);
  if (at + 1 == all_.size()) all_.pop_back();
}

void Allocations::settle(Nanoseconds /*time*/, const AllocationSettled& event) {
  const auto at = row(event.allocation);
  if (!at) return;
  ListedAllocation& allocation = all_[*at];
  if (!event.result.ok()) {
    if (allocation.end == ListedAllocation::End::lives) allocation.end = ListedAllocation::End::failed;
    return;
  }
  if (event.backing == Backing::device && ++plain_listed_ > kMostPlain && *at + 1 == all_.size()) return drop(*at);
  count_pending();
  ++epoch_;
  allocation.settled = true;
  allocation.bytes = event.bytes;
  allocation.backing = event.backing;
  allocation.address = event.address;
  by_address_[event.address.value] = *at;
}

void Allocations::freed(Nanoseconds time, const Freed& event) {
  const auto at = row(event.allocation);
  if (!at || !event.result.ok()) return;
  ListedAllocation& allocation = all_[*at];
  allocation.freed = time;
  allocation.end = ListedAllocation::End::freed;
  const auto found = by_address_.find(allocation.address.value);
  if (found == by_address_.end() || found->second != *at) return;
  count_pending();
  ++epoch_;
  by_address_.erase(found);
}

void Allocations::shape(const LaunchShapeSeen& event) {
  count_pending();
  shapes_[event.shape] = {event.function, event.threads, event.arguments, {}, 0, 0};
}

void Allocations::graph(const GraphSeen& event) { graphs_[event.graph.value] = event.shapes; }

void Allocations::resolve(Shape& shape) {
  shape.touches.clear();
  shape.epoch = epoch_;
  for (const PointerArgument& argument : shape.arguments) {
    const auto above = by_address_.upper_bound(argument.address.value);
    if (above == by_address_.begin()) continue;
    const Row at = std::prev(above)->second;
    const ListedAllocation& allocation = all_[at];
    if (argument.address.value - allocation.address.value >= allocation.bytes.count()) continue;
    shape.touches.emplace_back(at, argument.index);
  }
}

void Allocations::count_shape(LaunchShapeId id) {
  const auto found = shapes_.find(id);
  if (found == shapes_.end()) return;
  Shape& shape = found->second;
  if (shape.epoch != epoch_) resolve(shape);
  if (shape.pending++ == 0) dirty_.push_back(&shape);
}

void Allocations::launched(LaunchCode code) {
  if ((code.value & 1U) == 0) return count_shape({code.value >> 1U});
  const auto found = graphs_.find(code.value >> 1U);
  if (found == graphs_.end()) return;
  for (const LaunchShapeId shape : found->second) count_shape(shape);
}

// What was touched holds only until the next allocation or free, so launches are counted before it.
void Allocations::count_pending() {
  for (Shape* const each : dirty_) {
    Shape& shape = *each;
    for (std::size_t i = 0; i < shape.touches.size(); ++i) {
      const auto [at, argument] = shape.touches[i];
      ListedAllocation& allocation = all_[at];
      const auto same = [at = at](const auto& touch) { return touch.first == at; };
      const auto begin = shape.touches.begin();
      if (std::none_of(begin, begin + static_cast<std::ptrdiff_t>(i), same)) allocation.launches += shape.pending;
      const std::uint64_t use = std::uint64_t{shape.function.value} << 32U | argument;
      if (allocation.uses.size() < kMostUses || allocation.uses.contains(use)) allocation.uses[use] += shape.pending;
    }
    shape.pending = 0;
  }
  dirty_.clear();
}

}  // namespace spillway::tools::view
