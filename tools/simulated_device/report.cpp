#include <cstdio>
#include <sstream>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/inspection.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

void write_counters(std::ostream& out, const Statistics& s) {
  out << "\"virtual_time_ns\":" << virtual_time() << ",\"launches\":" << s.launches << ",\"faults\":" << s.faults
      << ",\"mapping_faults\":" << s.mapping_faults << ",\"driver_evictions\":" << s.driver_evictions
      << ",\"driver_evicted_bytes\":" << s.driver_evicted_bytes
      << ",\"host_to_device_bytes\":" << s.host_to_device_bytes
      << ",\"device_to_host_bytes\":" << s.device_to_host_bytes << ",\"migrated_in_bytes\":" << s.migrated_in_bytes
      << ",\"migrated_out_bytes\":" << s.migrated_out_bytes << ",\"remote_bytes\":" << s.remote_bytes
      << ",\"allocations\":" << s.allocations << ",\"frees\":" << s.frees;
}

void write_devices(std::ostream& out, const World& w) {
  out << ",\"devices\":[";
  for (std::size_t i = 0; i < w.devices.size(); ++i) {
    const Device& d = w.devices[i];
    out << (i == 0 ? "" : ",") << "{\"memory_bytes\":" << w.settings.memory_bytes
        << ",\"plain_bytes\":" << d.plain_bytes << ",\"managed_resident_bytes\":" << d.managed_bytes
        << ",\"managed_resident_peak_bytes\":" << d.managed_peak << ",\"resident_peak_bytes\":" << d.resident_peak
        << "}";
  }
  out << "]";
}

void write_memory(std::ostream& out, World& w) {
  out << ",\"leaks\":[";
  bool first = true;
  for (const auto& [address, allocation] : w.memory.live()) {
    if (allocation.kind == MemoryKind::mapping) continue;  // its handle is what leaks
    out << (first ? "" : ",") << "{\"address\":" << address << ",\"bytes\":" << allocation.bytes << ",\"kind\":\""
        << name_of(allocation.kind) << "\"}";
    first = false;
  }
  out << "],\"bad_frees\":[";
  for (std::size_t i = 0; i < w.statistics.bad_frees.size(); ++i) {
    const BadFree& bad = w.statistics.bad_frees[i];
    out << (i == 0 ? "" : ",") << "{\"address\":" << bad.address
        << ",\"freed_before\":" << (bad.freed_before ? "true" : "false") << "}";
  }
  out << "]";
}

void write_calls(std::ostream& out, const Statistics& s) {
  out << ",\"calls\":{";
  bool first = true;
  for (unsigned i = 0; i < kEntryPoints; ++i) {
    if (s.calls[i] == 0) continue;
    out << (first ? "" : ",") << '"' << symbol_of(static_cast<EntryPoint>(i)) << "\":" << s.calls[i];
    first = false;
  }
  out << "},\"launches_by_name\":{";
  first = true;
  for (const auto& [name, count] : s.launches_by_name) {
    out << (first ? "" : ",") << quoted(name) << ":" << count;
    first = false;
  }
  out << "}";
}

}  // namespace

std::string report_json() {
  World& w = world();
  std::ostringstream out;
  out << "{";
  write_counters(out, w.statistics);
  write_devices(out, w);
  write_memory(out, w);
  write_calls(out, w.statistics);
  out << "}\n";
  return out.str();
}

void note_late_call(EntryPoint entry) {
  const World& w = world();
  if (w.settings.report_path.empty()) return;
  std::FILE* file = std::fopen((w.settings.report_path + ".late").c_str(), "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", symbol_of(entry));
  std::fclose(file);
}

void write_report() {
  World& w = world();
  if (w.forked) return;
  const std::lock_guard lock(w.mutex);
  w.ending = true;
  if (w.settings.report_path.empty()) return;
  std::FILE* file = std::fopen(w.settings.report_path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(
        stderr,
        "simulated device: SPILLWAY_SIMULATED_REPORT=\"%s\": cannot be written; give a path in a writable folder\n",
        w.settings.report_path.c_str());
    return;
  }
  const std::string text = report_json();
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

}  // namespace spillway::simulated

using namespace spillway::simulated;

extern "C" __attribute__((visibility("default"))) void spillway_simulated_statistics(SimulatedStatistics* out) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const Statistics& s = w.statistics;
  *out = {};
  out->virtual_time_ns = virtual_time();
  out->launches = s.launches;
  out->faults = s.faults;
  out->driver_evictions = s.driver_evictions;
  out->host_to_device_bytes = s.host_to_device_bytes;
  out->device_to_host_bytes = s.device_to_host_bytes;
  out->migrated_in_bytes = s.migrated_in_bytes;
  out->migrated_out_bytes = s.migrated_out_bytes;
  out->remote_bytes = s.remote_bytes;
  out->bad_frees = s.bad_frees.size();
  for (const auto& [address, allocation] : w.memory.live()) {
    if (allocation.kind != MemoryKind::mapping) ++out->live_allocations;
  }
  for (const Device& device : w.devices) {
    out->plain_bytes += device.plain_bytes;
    out->managed_resident_bytes += device.managed_bytes;
    out->managed_resident_peak_bytes += device.managed_peak;
    out->resident_peak_bytes += device.resident_peak;
  }
}

extern "C" __attribute__((visibility("default"))) std::uint64_t spillway_simulated_calls(const char* symbol) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  for (unsigned i = 0; i < kEntryPoints; ++i) {
    if (std::string_view(symbol) == symbol_of(static_cast<EntryPoint>(i))) return w.statistics.calls[i];
  }
  return 0;
}

extern "C" __attribute__((visibility("default"))) int spillway_simulated_residency(std::uint64_t address) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const Allocation* allocation = w.memory.containing(address);
  if (allocation == nullptr || allocation->kind != MemoryKind::managed) return -1;
  return static_cast<int>(allocation->chunks[(address - allocation->address) / kChunkBytes].residency);
}

extern "C" __attribute__((visibility("default"))) std::size_t spillway_simulated_report(char* text, std::size_t room) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const std::string json = report_json();
  if (text != nullptr && room != 0) std::snprintf(text, room, "%s", json.c_str());
  return json.size();
}
