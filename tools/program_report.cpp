#include "tools/program_report.hpp"

#include <algorithm>
#include <fstream>
#include <unordered_map>
#include <variant>

#include "policy/plain_memory.hpp"
#include "policy/settings.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_source.hpp"

namespace spillway::tools {
namespace {

using namespace policy;
using Json = nlohmann::ordered_json;

constexpr std::int32_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

struct WayWords {
  const char* key;
  const char* name;
  const char* fate;
};
constexpr std::array<WayWords, kMemoryWays> kWays{{
    {"large", "cudaMalloc, 2 MiB and more", "spills, and moves both ways"},
    {"small", "cudaMalloc, smaller", "stays on the device"},
    {"mapped", "map-style (cuMemCreate)", "spills where the budget ends, for good"},
    {"other_mapped", "map-style, special", "stays on the device (shared, compressed, or no host memory for it)"},
    {"pools", "pools (cudaMallocAsync), 2 MiB and more", "spills, and moves both ways"},
    {"other_pools", "pools, smaller or in a capture", "stays on the device"},
    {"arrays", "arrays and textures", "stays on the device"},
    {"managed", "managed by the program", "left alone, not counted"},
    {"imported", "imported", "left alone, counts where it was made"},
}};

bool counted_way(MemoryWay way) { return way != MemoryWay::managed && way != MemoryWay::imported; }
bool spilling_way(MemoryWay way) {
  return way == MemoryWay::large || way == MemoryWay::mapped || way == MemoryWay::pools;
}
bool stays(MemoryWay way) { return counted_way(way) && !spilling_way(way); }

MemoryWay way_of(const AllocationRequested& asked) {
  const bool large = asked.bytes >= kChunk;
  switch (asked.kind) {
    case AllocationKind::linear:
    case AllocationKind::pitched:
    case AllocationKind::unspillable:
      return large ? MemoryWay::large : MemoryWay::small;
    case AllocationKind::stretchable:
      return MemoryWay::mapped;
    case AllocationKind::physical:
      return MemoryWay::other_mapped;
    case AllocationKind::stream_ordered:
    case AllocationKind::pool_arena:
      return large && !asked.capturing ? MemoryWay::pools : MemoryWay::other_pools;
    case AllocationKind::array:
      return MemoryWay::arrays;
    case AllocationKind::program_managed:
      return MemoryWay::managed;
    case AllocationKind::imported:
      break;
  }
  return MemoryWay::imported;
}

// One process's trace; what lives at a time is added up over its processes as if all lived at once.
class Reader {
 public:
  explicit Reader(ProgramUse& use) : use_(use) {}

  void operator()(const DeviceSeen& event) { seen_[event.device.value] = event; }
  void operator()(const HostMemorySeen& event) { host_ = std::max(host_, event.available); }
  void operator()(const FunctionSeen& event) {
    use_.torch = use_.torch || event.name.find("at6native") != std::string::npos ||
                 event.name.find("at::native") != std::string::npos;
  }
  void operator()(const CallerSeen& event) { callers_[event.caller] = event.library; }
  void operator()(const CallSeen& event) { use_.calls.insert(event.symbol); }
  void operator()(const TelemetryChanged& event) {
    use_.cupti_taken = use_.cupti_taken || event.state == TelemetryState::yielded;
  }
  void operator()(const AllocationRequested& event) { asked_[event.allocation] = {event, {}}; }
  void operator()(const AllocationSettled& event) {
    const auto asked = asked_.find(event.allocation);
    if (asked == asked_.end()) return;
    if (!event.result.ok()) {
      refuse(asked->second.request, event.result.code);
      asked_.erase(asked);
      return;
    }
    AllocationRequested& request = asked->second.request;
    request.bytes = event.bytes;
    asked->second.block = block_address(request.kind, event.address);
    const auto caller = callers_.find(request.caller);
    if (caller != callers_.end()) use_.callers.insert(caller->second);
    count(asked->second);
  }
  void operator()(const Freed& event) {
    const auto asked = asked_.find(event.allocation);
    if (asked == asked_.end() || !event.result.ok()) return;
    const AllocationRequested& request = asked->second.request;
    Live& live = live_[request.device.value];
    const MemoryWay way = way_of(request);
    live.ways[static_cast<std::size_t>(way)] -= request.bytes;
    if (counted_way(way)) live.all -= request.bytes;
    if (stays(way)) {
      live.fixed -= request.bytes;
      live.plain.remove(asked->second.block, request.bytes);
    }
    asked_.erase(asked);
  }
  void operator()(const Launched&) { ++use_.launches; }
  void operator()(const GraphLaunched&) {
    ++use_.launches;
    ++use_.graph_launches;
  }
  template <class Other>
  void operator()(const Other&) {}

  // Once, at the end.
  void finish() {
    for (const auto& [index, live] : live_) {
      DeviceUsed& device = use_.devices[index];
      device.most += live.most;
      device.most_fixed += live.most_fixed;
      device.plain_peak += live.plain_peak;
      for (std::size_t way = 0; way < kMemoryWays; ++way) device.ways[way].most += live.most_of_ways[way];
      const auto seen = seen_.find(index);
      if (seen == seen_.end()) continue;
      device.name = seen->second.name;
      device.total = seen->second.total;
      device.free = seen->second.free;
      device.host = host_;
      device.can_spill = seen->second.can_spill;
    }
  }

 private:
  struct Allocation {
    AllocationRequested request;
    Address block;  // once settled
  };
  struct Live {
    Bytes all, most, fixed, most_fixed;
    PlainMemory plain;  // of what is fixed
    Bytes plain_peak;
    std::array<Bytes, kMemoryWays> ways;
    std::array<Bytes, kMemoryWays> most_of_ways;
  };

  // The engine asks for a place for the most that it may take, before anyone knows whether it shares a block.
  static void promise(Live& live, Bytes bytes) {
    live.plain_peak = std::max(live.plain_peak, live.plain.live() + PlainMemory::most(bytes));
  }

  void refuse(const AllocationRequested& asked, std::int32_t code) {
    DeviceUsed& device = use_.devices[asked.device.value];
    if (code == kOutOfMemory && stays(way_of(asked))) promise(live_[asked.device.value], asked.bytes);
    if (device.refused && (device.ran_out() || code != kOutOfMemory)) return;
    device.refused = {way_of(asked), asked.bytes, live_[asked.device.value].all, code};
  }

  void count(const Allocation& allocation) {
    const AllocationRequested& asked = allocation.request;
    const MemoryWay way = way_of(asked);
    const auto index = static_cast<std::size_t>(way);
    WayUsed& used = use_.devices[asked.device.value].ways[index];
    ++used.count;
    used.bytes += asked.bytes;
    Live& live = live_[asked.device.value];
    live.ways[index] += asked.bytes;
    live.most_of_ways[index] = std::max(live.most_of_ways[index], live.ways[index]);
    if (!counted_way(way)) return;
    live.all += asked.bytes;
    live.most = std::max(live.most, live.all);
    if (spilling_way(way)) return;
    promise(live, asked.bytes);
    live.plain.add(allocation.block, asked.bytes);
    live.fixed += asked.bytes;
    live.most_fixed = std::max(live.most_fixed, live.fixed);
  }

  ProgramUse& use_;
  Bytes host_;
  std::map<std::uint32_t, DeviceSeen> seen_;
  std::unordered_map<CallerId, std::string> callers_;
  std::unordered_map<AllocationId, Allocation> asked_;  // and what lives
  std::map<std::uint32_t, Live> live_;
};

// The file name of the shared runtime that the file asks for; "static" if the runtime is in it: the names of its errors
// are. Empty if neither.
std::string runtime_in(const std::string& path) {
  constexpr std::size_t kBlock = std::size_t{1} << 20U;
  constexpr std::size_t kOverlap = 64;  // longer than what is looked for
  const std::string shared = "libcudart.so";
  std::ifstream file(path, std::ios::binary);
  std::string block;
  std::string rest;
  bool inside = false;
  while (file) {
    block.assign(kBlock, '\0');
    file.read(block.data(), static_cast<std::streamsize>(kBlock));
    block.resize(static_cast<std::size_t>(file.gcount()));
    const std::string text = rest + block;
    if (const std::size_t at = text.find(shared); at != std::string::npos) {
      const std::size_t end = text.find_first_not_of(".0123456789", at + shared.size());
      return text.substr(at, end == std::string::npos ? shared.size() : end - at);
    }
    inside = inside || text.find("cudaErrorMemoryAllocation") != std::string::npos;
    rest = text.substr(text.size() - std::min(text.size(), kOverlap));
  }
  return inside ? "static" : "";
}

}  // namespace

bool DeviceUsed::ran_out() const { return refused && refused->code == kOutOfMemory; }

bool DeviceUsed::rescued() const {
  return ran_out() && can_spill && spilling_way(refused->way) && refused->beside + refused->bytes <= free + host;
}

bool DeviceUsed::spills() const {
  if (rescued()) return true;
  for (std::size_t way = 0; way < kMemoryWays; ++way) {
    if (can_spill && spilling_way(static_cast<MemoryWay>(way)) && ways[way].count > 0) return true;
  }
  return false;
}

void add_trace(ProgramUse& use, const std::string& path) {
  Reader reader(use);
  const auto problem = read_trace(
      path,
      [&reader](const trace::Record& record) {
        if (record.kind == trace::RecordKind::event) std::visit(reader, record.event.body);
      },
      [](const trace::TraceReader&) {});
  if (problem) {
    use.problems.push_back(*problem);
    return;
  }
  reader.finish();
  ++use.processes;
}

std::vector<std::string> runtimes_of(const ProgramUse& use) {
  std::vector<std::string> found;
  for (const std::string& caller : use.callers) {
    const std::string runtime = runtime_in(caller);
    if (runtime.empty()) {
      found.push_back("none: " + caller + " calls the driver");
    } else {
      found.push_back((runtime == "static" ? runtime : "shared (" + runtime + ")") + ", for " + caller);
    }
  }
  return found;
}

std::string refused_text(const Refused& refused) {
  return format_bytes(refused.bytes) + " (" + kWays[static_cast<std::size_t>(refused.way)].name + ") beside " +
         format_bytes(refused.beside) + " in use";
}

std::string report_text(const ProgramUse& use, std::size_t width) {
  std::string text;
  for (const std::string& runtime : runtimes_of(use)) text += "CUDA runtime   " + harmless(runtime) + "\n";
  text += "processes      " + std::to_string(use.processes) + "\n";
  text += "launches       " + grouped(use.launches) + ", " + grouped(use.graph_launches) + " of graphs\n";
  for (const auto& [index, device] : use.devices) {
    text += "\ndevice " + std::to_string(index) + " (" + harmless(device.name) + ", " + format_bytes(device.total) +
            "): at most " + format_bytes(device.most) + " at a time, of which " + format_bytes(device.most_fixed) +
            " cannot spill\n";
    if (device.refused)
      text += "  the driver refused " + refused_text(*device.refused) +
              (device.ran_out() ? ": out of memory" : ": its error " + std::to_string(device.refused->code)) + "\n";
    TextTable table({{"  memory", Align::left}, {"count"}, {"bytes"}, {"at most"}, {"under Spillway", Align::left}});
    for (std::size_t way = 0; way < kMemoryWays; ++way) {
      const WayUsed& used = device.ways[way];
      if (used.count == 0) continue;
      const bool spills = spilling_way(static_cast<MemoryWay>(way));
      table.add({std::string("  ") + kWays[way].name, grouped(used.count), format_bytes(used.bytes),
                 format_bytes(used.most),
                 spills && !device.can_spill ? "stays: the device has no concurrent managed access" : kWays[way].fate});
    }
    text += table.str(width);
  }
  text += "\nWhat to use\n";
  for (const Advice& advice : advice_for(use)) {
    text +=
        "  " + (advice.setting.empty() ? std::string() : harmless(advice.setting) + ": ") + harmless(advice.why) + "\n";
  }
  return text;
}

Json report_json(const ProgramUse& use) {
  const bool ran_out =
      std::any_of(use.devices.begin(), use.devices.end(), [](const auto& entry) { return entry.second.ran_out(); });
  Json json = {{"processes", use.processes},   {"launches", use.launches},     {"graph_launches", use.graph_launches},
               {"ran_out_of_memory", ran_out}, {"runtimes", runtimes_of(use)}, {"profiler", use.cupti_taken},
               {"driver_calls", use.calls}};
  json["devices"] = Json::array();
  for (const auto& [index, device] : use.devices) {
    Json one = {{"device", index},
                {"name", device.name},
                {"total_bytes", device.total.count()},
                {"can_spill", device.can_spill},
                {"most_bytes", device.most.count()},
                {"most_bytes_that_cannot_spill", device.most_fixed.count()},
                {"plain_peak_bytes", device.plain_peak.count()}};
    if (device.refused) {
      one["refused"] = {{"memory", kWays[static_cast<std::size_t>(device.refused->way)].key},
                        {"bytes", device.refused->bytes.count()},
                        {"beside_bytes", device.refused->beside.count()},
                        {"code", device.refused->code}};
    }
    one["memory"] = Json::object();
    for (std::size_t way = 0; way < kMemoryWays; ++way) {
      const WayUsed& used = device.ways[way];
      if (used.count == 0) continue;
      one["memory"][kWays[way].key] = {{"count", used.count},
                                       {"bytes", used.bytes.count()},
                                       {"most_bytes", used.most.count()},
                                       {"spills", device.can_spill && spilling_way(static_cast<MemoryWay>(way))}};
    }
    json["devices"].push_back(std::move(one));
  }
  json["advice"] = Json::array();
  for (const Advice& advice : advice_for(use))
    json["advice"].push_back({{"setting", advice.setting}, {"why", advice.why}});
  json["problems"] = use.problems;
  return json;
}

}  // namespace spillway::tools
