#include "tools/simulated_device/cupti/records.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tools/simulated_device/observers.hpp"

namespace spillway::simulated::cupti {
namespace {

constexpr std::size_t kRecordsBetweenFlushes = 8191;  // measured: the rest is lost

using Record = std::variant<CUpti_ActivityUnifiedMemoryCounter3, CUpti_ActivityKernel10>;

struct State {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  bool counters = false;
  bool kernels = false;
  std::vector<Record> records;
  std::size_t dropped = 0;
  std::unordered_set<std::string> names;  // records point at kernel names for good
};

State& state() {
  static State* const instance = new State;  // the driver may report during the program's exit
  return *instance;
}

void keep(State& s, const Record& record) {
  if (s.records.size() < kRecordsBetweenFlushes) {
    s.records.push_back(record);
  } else {
    ++s.dropped;
  }
}

CUpti_ActivityUnifiedMemoryCounterKind kind_of(Traffic traffic) {
  switch (traffic) {
    case Traffic::host_to_device:
      return CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
    case Traffic::device_to_host:
      return CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH;
    case Traffic::device_fault:
      return CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT;
    case Traffic::host_fault:
      return CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT;
    case Traffic::remote_map:
      return CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP;
  }
  return CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_UNKNOWN;
}

void on_traffic(std::uint32_t kind, std::uint64_t address, std::uint64_t bytes, int device, std::int64_t time) {
  State& s = state();
  const auto traffic = static_cast<Traffic>(kind);
  CUpti_ActivityUnifiedMemoryCounter3 record;
  std::memset(&record, 0, sizeof record);
  record.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
  record.counterKind = kind_of(traffic);
  record.value = traffic == Traffic::device_fault ? 1 : bytes;
  record.start = record.end = static_cast<std::uint64_t>(time);
  record.address = address;
  record.srcId =
      traffic == Traffic::host_to_device ? static_cast<std::uint32_t>(-1) : static_cast<std::uint32_t>(device);
  record.dstId =
      traffic == Traffic::device_to_host ? static_cast<std::uint32_t>(-1) : static_cast<std::uint32_t>(device);
  record.processId = static_cast<std::uint32_t>(getpid());
  const std::lock_guard lock(s.mutex);
  keep(s, record);
}

void on_kernel(const char* name, std::int64_t start, std::int64_t end, int device, std::uint64_t stream,
               std::uint64_t correlation, std::uint64_t graph_node, const unsigned grid[3], const unsigned block[3]) {
  State& s = state();
  CUpti_ActivityKernel10 record;
  std::memset(&record, 0, sizeof record);
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = static_cast<std::uint64_t>(start);
  record.end = record.completed = static_cast<std::uint64_t>(end);
  record.deviceId = static_cast<std::uint32_t>(device);
  record.streamId = static_cast<std::uint32_t>(stream);
  record.graphNodeId = graph_node;
  record.correlationId = static_cast<std::uint32_t>(correlation);
  record.gridX = static_cast<std::int32_t>(grid[0]);
  record.gridY = static_cast<std::int32_t>(grid[1]);
  record.gridZ = static_cast<std::int32_t>(grid[2]);
  record.blockX = static_cast<std::int32_t>(block[0]);
  record.blockY = static_cast<std::int32_t>(block[1]);
  record.blockZ = static_cast<std::int32_t>(block[2]);
  const std::lock_guard lock(s.mutex);
  record.name = s.names.insert(name).first->c_str();
  keep(s, record);
}

// Symbols of the stand-in driver; null under any other.
void* driver_symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

bool driver_is_initialized() {
  const auto get_current = reinterpret_cast<CUresult (*)(CUcontext*)>(driver_symbol("cuCtxGetCurrent"));
  CUcontext unused = nullptr;
  return get_current != nullptr && get_current(&unused) == CUDA_SUCCESS;
}

// Without our own lock: the driver's lock is taken inside, and the driver calls us with its lock held.
CUptiResult connect(bool counters, bool kernels) {
  const auto observe = reinterpret_cast<void (*)(const Observer*)>(driver_symbol("spillway_simulated_observe"));
  if (observe == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  const Observer observer{counters ? on_traffic : nullptr, kernels ? on_kernel : nullptr};
  observe(&observer);
  return CUPTI_SUCCESS;
}

CUptiResult switch_kind(CUpti_ActivityKind kind, bool on) {
  State& s = state();
  bool counters = false;
  bool kernels = false;
  {
    const std::lock_guard lock(s.mutex);
    if (kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) {
      s.counters = on;
    } else if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || kind == CUPTI_ACTIVITY_KIND_KERNEL) {
      s.kernels = on;
    } else {
      return CUPTI_ERROR_INVALID_KIND;
    }
    counters = s.counters;
    kernels = s.kernels;
  }
  return connect(counters, kernels);
}

}  // namespace

void begin() {
  static const auto begins = reinterpret_cast<void (*)()>(driver_symbol("spillway_simulated_cupti_begins"));
  if (begins != nullptr) begins();
}

void set_buffer_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.request = request;
  s.complete = complete;
}

bool has_buffer_callbacks() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.request != nullptr && s.complete != nullptr;
}

CUptiResult enable(CUpti_ActivityKind kind) {
  if (!driver_is_initialized()) return CUPTI_ERROR_NOT_READY;  // measured: error 13 before cuInit
  return switch_kind(kind, true);
}

CUptiResult disable(CUpti_ActivityKind kind) { return switch_kind(kind, false); }

void flush() {
  State& s = state();
  std::vector<Record> records;
  {
    const std::lock_guard lock(s.mutex);
    records.swap(s.records);
  }
  std::size_t next = 0;
  while (next < records.size()) {
    std::uint8_t* buffer = nullptr;
    std::size_t room = 0;
    std::size_t most = 0;
    s.request(&buffer, &room, &most);
    std::size_t used = 0;
    std::size_t count = 0;
    for (; next < records.size() && (most == 0 || count < most); ++next, ++count) {
      const auto [data, bytes] =
          std::visit([](const auto& r) { return std::pair<const void*, std::size_t>(&r, sizeof r); }, records[next]);
      if (buffer == nullptr || used + bytes > room) break;
      std::memcpy(buffer + used, data, bytes);
      used += bytes;
    }
    if (buffer == nullptr || count == 0) {  // no room for a single record: what is left is lost, and counted
      const std::lock_guard lock(s.mutex);
      s.dropped += records.size() - next;
      next = records.size();
    }
    if (buffer != nullptr) s.complete(nullptr, 0, buffer, room, used);
  }
}

std::size_t take_dropped() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return std::exchange(s.dropped, 0);
}

std::uint64_t virtual_time() {
  const auto now = reinterpret_cast<std::int64_t (*)()>(driver_symbol("spillway_simulated_virtual_time"));
  return now == nullptr ? 0 : static_cast<std::uint64_t>(now());
}

}  // namespace spillway::simulated::cupti
