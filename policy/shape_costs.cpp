#include "policy/shape_costs.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "policy/crossings.hpp"
#include "policy/function_book.hpp"
#include "policy/possible_events.hpp"
#include "policy/reach.hpp"
#include "policy/use_crossings.hpp"

namespace spillway::policy {
namespace {

// What is beyond is damage: a day.
constexpr Nanoseconds kLongestKernel{86'400'000'000'000};
// Of the time that HBM takes for what a kernel is told; the L2 cache is about twice as fast.
constexpr double kTooFast = 0.5;
// A pointer that is used so many times less often than a launch does not say where the launch's tensor ends: it is a
// place in that tensor, of one step (a cache is appended to).
constexpr std::uint64_t kSeldom = 8;

// How often each shape is launched, graphs' kernels among them.
std::unordered_map<LaunchShapeId, std::uint64_t> launch_counts(std::span<const Event> events) {
  std::unordered_map<LaunchShapeId, std::uint64_t> counts;
  std::unordered_map<GraphId, const std::vector<LaunchShapeId>*> graphs;
  for (const Event& event : events) {
    if (const auto* launch = std::get_if<Launched>(&event.body)) {
      ++counts[launch->shape];
    } else if (const auto* seen = std::get_if<GraphSeen>(&event.body)) {
      graphs[seen->graph] = &seen->shapes;
    } else if (const auto* graph = std::get_if<GraphLaunched>(&event.body)) {
      const auto kernels = graphs.find(graph->graph);
      if (kernels == graphs.end()) continue;
      for (const LaunchShapeId shape : *kernels->second) ++counts[shape];
    }
  }
  return counts;
}

// Pointers in order, and how often they are used. A tree of the most in each half, as thousands of launches may look
// past thousands of seldom ones each.
class Cuts {
 public:
  explicit Cuts(const std::map<std::uint64_t, std::uint64_t>& counted)
      : leaves_(std::bit_ceil(std::max<std::size_t>(counted.size(), 1))), most_(2 * leaves_) {
    for (const auto& [address, count] : counted) {
      most_[leaves_ + addresses_.size()] = count;
      addresses_.push_back(address);
    }
    for (std::size_t node = leaves_ - 1; node > 0; --node) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }
  // The first beyond `address` that is used `least` times.
  [[nodiscard]] std::optional<std::uint64_t> after(std::uint64_t address, std::uint64_t least) const {
    const auto next = std::upper_bound(addresses_.begin(), addresses_.end(), address);
    if (next == addresses_.end()) return std::nullopt;
    std::size_t node = leaves_ + static_cast<std::size_t>(next - addresses_.begin());
    while (most_[node] < least) {
      while (node % 2 == 1) node /= 2;
      if (node == 0) return std::nullopt;
      ++node;
    }
    while (node < leaves_) {
      node *= 2;
      if (most_[node] < least) ++node;
    }
    return addresses_[node - leaves_];
  }

 private:
  std::size_t leaves_;
  std::vector<std::uint64_t> most_;
  std::vector<std::uint64_t> addresses_;
};

// One pass over the events: who lives where, and every pointer ever used into it. Addresses are compared as the program
// sees them, so an address that is allocated again keeps the cuts of before: shorter uses, never longer ones.
class Extents {
 public:
  explicit Extents(std::span<const Event> events) : counts_(launch_counts(events)) {
    for (const Event& event : events) take(event);
    cuts_.emplace(counted_);
  }
  // To the end of its allocation; zero outside of all.
  [[nodiscard]] Bytes room(Address address) const {
    auto block = ends_.upper_bound(address.value);
    if (block == ends_.begin()) return {};
    --block;
    return address.value >= block->second ? Bytes() : Bytes(block->second - address.value);
  }
  // To the next pointer, but `reach` at least, as far as there is room. As this shape uses it.
  [[nodiscard]] Bytes of(Address address, Bytes reach, LaunchShapeId shape) const {
    const auto launches = counts_.find(shape);
    const std::uint64_t often = launches == counts_.end() ? 0 : launches->second;
    const Bytes most = room(address);
    if (most == Bytes()) return most;
    const auto cut = cuts_->after(address.value, (often + kSeldom - 1) / kSeldom);
    const Bytes next = cut ? Bytes(*cut - address.value) : most;
    return std::min(most, std::max(next, reach));
  }

 private:
  void take(const Event& event) {
    if (const auto* settled = std::get_if<AllocationSettled>(&event.body); settled != nullptr && settled->result.ok()) {
      const std::uint64_t end = settled->address.value + settled->bytes.count();
      if (settled->bytes > kMostMemory || end < settled->address.value) return;  // damage
      if (settled->address) return note(settled->address, settled->bytes);
      unmapped_[settled->allocation] = settled->bytes;
    } else if (const auto* mapped = std::get_if<Mapped>(&event.body)) {
      const auto bytes = unmapped_.find(mapped->allocation);
      if (bytes != unmapped_.end() && mapped->address) note(mapped->address, bytes->second);
    } else if (const auto* shape = std::get_if<LaunchShapeSeen>(&event.body)) {
      const std::uint64_t launches = counts_[shape->shape];
      for (const PointerArgument& argument : shape->arguments) counted_[argument.address.value] += launches;
    } else if (const auto* copy = std::get_if<Copied>(&event.body)) {
      ++counted_[copy->destination.value];
      ++counted_[copy->source.value];
    } else if (const auto* fill = std::get_if<Filled>(&event.body)) {
      ++counted_[fill->address.value];
    }
  }
  void note(Address address, Bytes bytes) {
    const std::uint64_t end = address.value + bytes.count();
    std::uint64_t& known = ends_[address.value];
    if (end > address.value) known = std::max(known, end);
  }

  std::map<std::uint64_t, std::uint64_t> ends_;     // allocations by address
  std::map<AllocationId, Bytes> unmapped_;          // physical memory, whose addresses come when it is mapped
  std::map<std::uint64_t, std::uint64_t> counted_;  // pointers, and how often they are used
  std::optional<Cuts> cuts_;                        // of them
  std::unordered_map<LaunchShapeId, std::uint64_t> counts_;
};

// Shortest time of each shape that telemetry saw.
std::unordered_map<LaunchShapeId, double> kernel_times(std::span<const Event> events) {
  std::vector<LaunchShapeId> launched{{}};
  std::unordered_map<LaunchShapeId, double> times;
  for (const Event& event : events) {
    if (const auto* launch = std::get_if<Launched>(&event.body)) {
      launched.push_back(launch->shape);
    } else if (std::holds_alternative<GraphLaunched>(event.body)) {
      launched.push_back({});
    } else if (const auto* timed = std::get_if<KernelTimed>(&event.body)) {
      if (timed->launch.value >= launched.size() || timed->duration.count() <= 0 || timed->duration > kLongestKernel)
        continue;
      const double seconds = static_cast<double>(timed->duration.count()) * 1e-9;
      const auto [entry, fresh] = times.try_emplace(launched[timed->launch.value], seconds);
      if (!fresh) entry->second = std::min(entry->second, seconds);
    }
  }
  return times;
}

// What is too large for one launch over a list of tensors goes on in the next one: each does its part
// (use_crossings.hpp counts alike). The part, by the shape of the launch and the address of the tensor.
class ListParts {
 public:
  explicit ListParts(std::span<const Event> events) {
    for (const Event& event : events) {
      if (const auto* seen = std::get_if<LaunchShapeSeen>(&event.body)) {
        shapes_[seen->shape] = seen;
      } else if (const auto* launched = std::get_if<Launched>(&event.body)) {
        const auto shape = shapes_.find(launched->shape);
        next(shape == shapes_.end() ? nullptr : shape->second);
      } else if (std::holds_alternative<GraphLaunched>(event.body)) {
        next(nullptr);
      }
    }
    next(nullptr);
  }
  [[nodiscard]] double of(LaunchShapeId shape, Address address) const {
    const auto launches = launches_.find(shape);
    if (launches == launches_.end()) return 1;
    const auto count = launches->second.find(address);
    return count == launches->second.end() ? 1 : 1.0 / static_cast<double>(count->second);
  }

 private:
  // Parameters of the launch that have been given a list.
  static std::set<std::uint16_t> lists(const LaunchShapeSeen& shape) {
    std::unordered_map<std::uint16_t, std::size_t> counts;
    for (const PointerArgument& argument : shape.arguments) ++counts[argument.index];
    std::set<std::uint16_t> all;
    for (const auto& [index, count] : counts) {
      if (count >= kListUse) all.insert(index);
    }
    return all;
  }
  // The run of launches of one function goes on with `shape`, or is over.
  void next(const LaunchShapeSeen* shape) {
    const LaunchShapeSeen* const before = run_.empty() ? nullptr : run_.back();
    std::unordered_map<Address, std::size_t> open;  // launches so far that name the tensor, one after the other
    const bool same = shape != nullptr && before != nullptr && before->function == shape->function;
    if (same && std::max(before->arguments.size(), shape->arguments.size()) >= kListUse) {
      // It may have filled the launch before, so that only one of the two names many.
      std::set<std::uint16_t> of_either = lists(*before);
      of_either.merge(lists(*shape));
      std::unordered_set<Address> named;
      for (const PointerArgument& argument : before->arguments) named.insert(argument.address);
      for (const PointerArgument& argument : shape->arguments) {
        if (!of_either.contains(argument.index) || !named.contains(argument.address)) continue;
        const auto known = open_.find(argument.address);
        open[argument.address] = known == open_.end() ? 2 : known->second + 1;
      }
    }
    for (const auto& [address, count] : open_) {
      if (open.contains(address)) continue;
      for (std::size_t back = 1; back <= count; ++back) launches_[run_[run_.size() - back]->shape][address] = count;
    }
    open_ = std::move(open);
    if (!same) run_.clear();
    if (shape != nullptr) run_.push_back(shape);
  }

  std::unordered_map<LaunchShapeId, const LaunchShapeSeen*> shapes_;
  std::unordered_map<LaunchShapeId, std::unordered_map<Address, std::size_t>> launches_;
  std::vector<const LaunchShapeSeen*> run_;
  std::unordered_map<Address, std::size_t> open_;  // those that the last two launches name
};

}  // namespace

ShapeCosts infer_shape_costs(std::span<const Event> events, const CostTable& costs) {
  const Extents extents(events);
  FunctionBook functions;
  for (const Event& event : events) {
    if (const auto* seen = std::get_if<FunctionSeen>(&event.body)) functions.seen(seen->function, seen->name);
  }
  Reach reach;
  for (const Event& event : events) {
    const auto* shape = std::get_if<LaunchShapeSeen>(&event.body);
    if (shape == nullptr || functions.kind(shape->function) != FunctionKind::other) continue;
    for (std::size_t i = 0; i < shape->arguments.size(); ++i)
      reach.seen(shape->function, i, shape->threads, extents.room(shape->arguments[i].address));
  }
  // What no streaming kernel says of its own launch, the last one that said something at this address has said, as
  // SpanMap keeps it; before the first one, what that is going to say.
  std::unordered_map<Address, Bytes> reached_at;
  for (const Event& event : events) {
    const auto* shape = std::get_if<LaunchShapeSeen>(&event.body);
    if (shape == nullptr || functions.kind(shape->function) != FunctionKind::other) continue;
    for (std::size_t i = 0; i < shape->arguments.size(); ++i) {
      const Bytes said = reach.of(shape->function, i, shape->threads);
      if (said != Bytes()) reached_at.try_emplace(shape->arguments[i].address, said);
    }
  }
  const ListParts parts(events);
  const auto times = kernel_times(events);
  std::unordered_map<LaunchKind, double, LaunchKindHash> shortest;
  std::vector<std::pair<LaunchShapeId, LaunchKind>> timed;
  ShapeCosts result;
  std::vector<Bytes> operands;  // of one launch, with its result
  for (const Event& event : events) {
    const auto* shape = std::get_if<LaunchShapeSeen>(&event.body);
    if (shape == nullptr) continue;
    const FunctionKind kind = functions.kind(shape->function);
    ShapeCost cost;
    double bytes = 0;
    LaunchKind launch_kind{shape->function, shape->threads, {}};
    operands.clear();
    for (std::size_t i = 0; i < std::min<std::size_t>(shape->arguments.size(), 3); ++i) {
      const Address address = shape->arguments[i].address;
      operands.push_back(extents.of(address, reached_at[address], shape->shape));
    }
    for (std::size_t i = 0; i < shape->arguments.size(); ++i) {
      const PointerArgument& argument = shape->arguments[i];
      if (launch_kind.bytes >= kMostMemory) break;  // overlapping arguments of a made-up launch
      const bool known = std::any_of(cost.touches.begin(), cost.touches.end(),
                                     [&](const PricedTouch& touch) { return touch.address == argument.address; });
      Bytes& reached = reached_at[argument.address];
      if (kind == FunctionKind::other) {
        const Bytes said = reach.of(shape->function, i, shape->threads);
        if (said != Bytes()) reached = said;
      }
      const Bytes extent = extents.of(argument.address, reached, shape->shape);
      if (known || extent == Bytes()) continue;
      const double crossings = default_crossings(kind, operand_columns(i, operands, shape->threads));
      const double part = parts.of(shape->shape, argument.address);
      cost.touches.push_back(
          {argument.address, extent, crossings * part, kind == FunctionKind::other ? 0.5 * part : 0});
      bytes += static_cast<double>(extent.count()) * std::min(crossings, 1.0) * part;
      launch_kind.bytes += extent;
    }
    cost.compute_seconds = bytes / costs.hbm;
    result[shape->shape] = std::move(cost);
    timed.emplace_back(shape->shape, launch_kind);
    const auto time = times.find(shape->shape);
    if (time == times.end()) continue;
    const auto [known, fresh] = shortest.try_emplace(launch_kind, time->second);
    if (!fresh) known->second = std::min(known->second, time->second);
  }
  for (const auto& [shape, launch_kind] : timed) {
    const auto time = shortest.find(launch_kind);
    if (time == shortest.end()) continue;
    ShapeCost& cost = result[shape];
    // It is told more than it uses: so much does not come out of HBM, nor out of the L2 cache, in that time.
    for (PricedTouch& touch : cost.touches) {
      const double once = static_cast<double>(touch.bytes.count()) * std::min(touch.reads, 1.0);
      const double part = time->second * costs.hbm / once;
      if (part >= kTooFast) continue;
      touch.reads *= part;
      touch.writes *= part;
    }
    cost.compute_seconds = time->second;
  }
  return result;
}

}  // namespace spillway::policy
