// An independent witness of page traffic for the GPU tests: counts, by CUPTI's unified-memory counters, what the driver
// really moved and faulted, without knowing anything of Spillway. The driver loads it itself (CUDA_INJECTION64_PATH)
// and calls InitializeInjection; the totals are written as JSON to the file that UNIFIED_MEMORY_WITNESS names, at exit.
// With UNIFIED_MEMORY_WITNESS_LOG every record becomes a line of that file: kind, address, value, start, end (CUPTI's
// nanoseconds), flags; the first line sets CUPTI's clock against the system's.
#include <cupti.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace {

std::atomic<std::uint64_t> host_to_device_bytes{0};
std::atomic<std::uint64_t> device_to_host_bytes{0};
std::atomic<std::uint64_t> gpu_fault_records{0};
std::atomic<std::uint64_t> gpu_faults{0};
std::atomic<std::uint64_t> cpu_faults{0};
std::atomic<std::uint64_t> dropped{0};
std::atomic<bool> stopping{false};
std::once_flag enabled;
constexpr std::size_t kBufferBytes = std::size_t{8} << 20;

void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *records = 0;
}

std::FILE* log_file = nullptr;  // written by CUPTI's one worker thread

void open_log() {
  const char* path = std::getenv("UNIFIED_MEMORY_WITNESS_LOG");
  log_file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (log_file == nullptr) return;
  std::uint64_t now = 0;
  cuptiGetTimestamp(&now);
  const auto system =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  std::fprintf(log_file, "clock,%llu,%lld\n", static_cast<unsigned long long>(now),
               static_cast<long long>(system.count()));
}

void log_record(const CUpti_ActivityUnifiedMemoryCounter3& record) {
  if (log_file == nullptr) return;
  std::fprintf(log_file, "%d,0x%llx,%llu,%llu,%llu,%u\n", static_cast<int>(record.counterKind),
               static_cast<unsigned long long>(record.address), static_cast<unsigned long long>(record.value),
               static_cast<unsigned long long>(record.start), static_cast<unsigned long long>(record.end),
               record.flags);
}

void count(const CUpti_ActivityUnifiedMemoryCounter3& record) {
  switch (record.counterKind) {
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD:
      host_to_device_bytes += record.value;
      break;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH:
      device_to_host_bytes += record.value;
      break;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT:
      ++gpu_fault_records;
      gpu_faults += record.value;
      break;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT:
      cpu_faults += record.value;
      break;
    default:
      break;
  }
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) {
      const auto& counter = *reinterpret_cast<const CUpti_ActivityUnifiedMemoryCounter3*>(record);
      count(counter);
      log_record(counter);
    }
  }
  std::size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  std::free(buffer);
}

void enable() {
  CUpti_ActivityUnifiedMemoryCounterConfig config[4]{};
  const CUpti_ActivityUnifiedMemoryCounterKind kinds[] = {
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT};
  for (int i = 0; i < 4; ++i) {
    config[i].scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
    config[i].kind = kinds[i];
    config[i].deviceId = 0;
    config[i].enable = 1;
  }
  open_log();
  cuptiActivityConfigureUnifiedMemoryCounter(config, 4);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
  // Some 8,191 records fit between flushes.
  std::thread([] {
    while (!stopping) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      cuptiActivityFlushAll(0);
    }
  }).detach();
}

void CUPTIAPI on_resource(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void*) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE || id != CUPTI_CBID_RESOURCE_CONTEXT_CREATED) return;
  std::call_once(enabled, enable);
}

void write_totals() {
  // Records arrive some milliseconds late.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  stopping = true;
  if (log_file != nullptr) std::fflush(log_file);
  const char* path = std::getenv("UNIFIED_MEMORY_WITNESS");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  std::fprintf(file,
               "{\"host_to_device_bytes\": %llu, \"device_to_host_bytes\": %llu, \"gpu_fault_records\": %llu, "
               "\"gpu_faults\": %llu, \"cpu_faults\": %llu, \"dropped_records\": %llu}\n",
               static_cast<unsigned long long>(host_to_device_bytes),
               static_cast<unsigned long long>(device_to_host_bytes),
               static_cast<unsigned long long>(gpu_fault_records), static_cast<unsigned long long>(gpu_faults),
               static_cast<unsigned long long>(cpu_faults), static_cast<unsigned long long>(dropped));
  std::fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  CUpti_SubscriberHandle subscriber = nullptr;
  if (cuptiSubscribe(&subscriber, on_resource, nullptr) != CUPTI_SUCCESS) return 0;
  cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
  cuptiActivityRegisterCallbacks(request_buffer, take_buffer);
  std::atexit(write_totals);
  return 1;
}
