#include "tests/golden/golden.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <unordered_map>

namespace spillway::golden {

using namespace policy;

namespace {

Bytes peak_of(const std::vector<Event>& events) {
  std::unordered_map<AllocationId, Bytes> live;
  Bytes now, peak;
  for (const Event& event : events) {
    if (const auto* settled = std::get_if<AllocationSettled>(&event.body); settled != nullptr && settled->result.ok()) {
      live[settled->allocation] = settled->bytes;
      now += settled->bytes;
      peak = std::max(peak, now);
    } else if (const auto* freed = std::get_if<Freed>(&event.body); freed != nullptr && freed->result.ok()) {
      now -= std::min(now, live[freed->allocation]);
      live.erase(freed->allocation);
    }
  }
  return peak;
}

}  // namespace

ReplayResult Golden::replay(ModeName mode, double share) const {
  PolicyFile policy;
  policy.settings.mode = mode;
  policy.settings.device_budget = SizeOrShare{budget(share)};
  ReplayOptions options;
  options.measure_after = {trace.launches * 2 / 3};
  if (mode == ModeName::adaptive) {
    options.keep = ReplayOptions::Keep::decisions;
  } else {
    options.bounds = ReplayOptions::WithBounds::no;
  }
  return policy::replay(trace.events, policy, shapes, {}, options);
}

ReplayResult Golden::replay_on(double share, std::uint32_t lookahead, std::uint64_t iteration,
                               std::uint64_t launches) const {
  const std::uint64_t stretch = 2 * iteration;
  // The latest events between which the program only launches, copies and fills, for so many launches.
  std::size_t begin = 0, end = 0;
  std::uint64_t run = 0;
  for (std::size_t i = trace.events.size(); i-- > 0 && run < stretch && iteration > 0;) {
    const EventBody& body = trace.events[i].body;
    const bool allocates = std::holds_alternative<AllocationRequested>(body) || std::holds_alternative<Freed>(body) ||
                           std::holds_alternative<FreeRequested>(body);
    if (allocates) run = 0;
    if (!std::holds_alternative<Launched>(body)) continue;
    if (run++ == 0) end = i + 1;
    begin = i;
  }
  std::vector<Event> events = trace.events;
  std::uint64_t all = trace.launches;
  if (run == stretch && stretch > 0) {
    events.resize(end);
    all = static_cast<std::uint64_t>(std::count_if(
        events.begin(), events.end(), [](const Event& event) { return std::holds_alternative<Launched>(event.body); }));
    const Nanoseconds from = events[begin].time;
    const Nanoseconds length = events[end - 1].time - from + Nanoseconds(1000);
    for (Nanoseconds later = length; all < launches; all += stretch, later = later + length) {
      for (std::size_t i = begin; i < end; ++i) {
        const EventBody& body = trace.events[i].body;
        if (std::holds_alternative<Launched>(body) || std::holds_alternative<Copied>(body) ||
            std::holds_alternative<Filled>(body))
          events.push_back({trace.events[i].time + later, body});
      }
    }
  }
  PolicyFile policy;
  policy.settings.device_budget = SizeOrShare{budget(share)};
  policy.settings.iteration_lookahead = lookahead;
  ReplayOptions options;
  const std::uint64_t measured = std::max<std::uint64_t>(all / 10 / std::max<std::uint64_t>(stretch, 1), 1) * stretch;
  options.measure_after = {all - std::min(all, measured)};
  return policy::replay(events, policy, shapes, {}, options);
}

std::vector<std::byte> bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> text((std::istreambuf_iterator<char>(stream)), {});
  if (!stream && text.empty()) throw std::runtime_error("it cannot be read: is the name right?");
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::filesystem::path> list(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".swt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Golden load(const std::filesystem::path& file) {
  Golden golden;
  golden.name = file.stem();
  if (const auto problem = tools::read_events(file, golden.trace)) throw std::runtime_error(*problem);
  if (golden.trace.state != "whole") throw std::runtime_error(file.string() + " is " + golden.trace.state);
  golden.shapes = infer_shape_costs(golden.trace.events, {});
  golden.peak = peak_of(golden.trace.events);
  return golden;
}

}  // namespace spillway::golden
