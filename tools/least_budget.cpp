#include "tools/least_budget.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "policy/replay.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

bool refuses(std::span<const Event> events, const TraceEvents& trace, PolicyFile policy, Bytes budget,
             const ShapeCosts& shapes) {
  policy.settings.device_budget = SizeOrShare{budget};
  ReplayOptions options;
  options.bounds = ReplayOptions::WithBounds::no;
  return replay(events, policy, shapes, trace.costs.costs, options).out_of_memory > 0;
}

// What was free on the recorded card when its device was seen.
Bytes free_on_card(const TraceEvents& trace) {
  Bytes free;
  for (const Event& event : trace.events) {
    const auto* seen = std::get_if<DeviceSeen>(&event.body);
    if (seen != nullptr && seen->device.value == 0) free = seen->free;
  }
  return free;
}

}  // namespace

Bytes find_least_budget(const TraceEvents& trace, const PolicyFile& policy, Bytes refusing, const ShapeCosts& shapes) {
  constexpr int kMostTries = 3;
  const Bytes most = free_on_card(trace);
  constexpr std::uint64_t kStep = (2_MiB).count();  // plain memory takes the card in such blocks
  std::vector<Event> events;
  std::copy_if(trace.events.begin(), trace.events.end(), std::back_inserter(events), [](const Event& event) {
    return !std::holds_alternative<Launched>(event.body) && !std::holds_alternative<GraphLaunched>(event.body) &&
           !std::holds_alternative<Copied>(event.body) && !std::holds_alternative<Filled>(event.body);
  });
  const auto mebibytes = [](std::uint64_t count) { return Bytes(count * (1_MiB).count()); };
  std::uint64_t low = refusing.count() / (1_MiB).count();
  std::uint64_t high = most.count() / (1_MiB).count();
  if (high <= low || refuses(events, trace, policy, mebibytes(high), shapes)) return {};
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (refuses(events, trace, policy, mebibytes(middle), shapes) ? low : high) = middle;
  }
  for (int i = 0; i < kMostTries; ++i) {
    const Bytes tried = mebibytes(high) + Bytes(static_cast<std::uint64_t>(i) * kStep);
    if (tried <= most && !refuses(trace.events, trace, policy, tried, shapes)) return tried;
  }
  return {};
}

std::string budget_text(Bytes budget) { return std::to_string(budget.count() / (1_MiB).count()) + "MiB"; }

}  // namespace spillway::tools
