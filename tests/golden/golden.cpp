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
