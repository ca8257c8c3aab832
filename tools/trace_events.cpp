#include "tools/trace_events.hpp"

#include <algorithm>

#include "tools/names.hpp"
#include "tools/run_follower.hpp"
#include "tools/simulated_device/device_name.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {

using namespace policy;

std::optional<std::string> read_events(const std::string& path, TraceEvents& events) {
  events.path = path;
  std::vector<DeviceSeen> in_header;
  RunFollower run;
  std::uint64_t began = 0;
  const auto see = [&](const trace::Record& record) {
    run.add(record);
    if (run.iteration_ended()) {
      if (run.iteration() > 1) events.iteration_launches = run.launches() - began;
      began = run.launches();
    }
    if (record.kind == trace::RecordKind::decision) {
      const auto* advised = std::get_if<AdviseRange>(&record.decision.body);
      if (advised != nullptr && advised->advice == Advice::probe) events.probed.insert(advised->allocation);
    }
    if (record.kind != trace::RecordKind::event) return;
    events.events.push_back(record.event);
    if (const auto* dropped = std::get_if<EventsDropped>(&record.event.body)) events.dropped += dropped->count;
    const bool launch =
        std::holds_alternative<Launched>(record.event.body) || std::holds_alternative<GraphLaunched>(record.event.body);
    events.launches += launch ? 1 : 0;
  };
  const auto finished = [&](const trace::TraceReader& reader) {
    events.state = completeness(reader);
    events.iterations = run.iterations();
    in_header = reader.header().devices;
    events.ruled = !reader.header().rules.empty();
    for (const DeviceTotals& totals : run.devices()) {
      events.moved_in += totals.moved_in;
      events.moved_out += totals.moved_out;
    }
    events.costs = costs_of_trace(reader.header());
    events.settings = settings_of(reader.header());
  };
  if (auto problem = read_trace(path, see, finished)) return problem;
  for (auto device = in_header.rbegin(); device != in_header.rend(); ++device) {
    const bool seen = std::any_of(events.events.begin(), events.events.end(), [&](const Event& event) {
      const auto* other = std::get_if<DeviceSeen>(&event.body);
      return other != nullptr && other->device == device->device;
    });
    if (!seen) events.events.insert(events.events.begin(), Event{{}, *device});
  }
  events.simulated = std::any_of(events.events.begin(), events.events.end(), [](const Event& event) {
    const auto* device = std::get_if<DeviceSeen>(&event.body);
    return device != nullptr && device->name.starts_with(simulated::kDeviceName);
  });
  return std::nullopt;
}

}  // namespace spillway::tools
