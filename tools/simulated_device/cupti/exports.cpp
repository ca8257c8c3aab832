// The CUPTI functions Spillway uses: one subscriber, activity records of unified memory and kernels, no API callbacks.
#include <mutex>

#include "tools/simulated_device/cupti/records.hpp"

#define SPILLWAY_EXPORT extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI

namespace {

struct Subscriber {
  std::mutex mutex;
  bool taken = false;
};

Subscriber& subscriber() {
  static Subscriber* const instance = new Subscriber;
  return *instance;
}

CUpti_SubscriberHandle handle() { return reinterpret_cast<CUpti_SubscriberHandle>(&subscriber()); }

constexpr std::size_t size_of(CUpti_ActivityKind kind) {
  return kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER ? sizeof(CUpti_ActivityUnifiedMemoryCounter3)
                                                            : sizeof(CUpti_ActivityKernel10);
}

}  // namespace

namespace cupti = spillway::simulated::cupti;

SPILLWAY_EXPORT cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

// The user's profiler and we share one place, as with the real library.
SPILLWAY_EXPORT cuptiSubscribe(CUpti_SubscriberHandle* out, CUpti_CallbackFunc, void*) {
  if (out == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  cupti::begin();
  const std::lock_guard lock(subscriber().mutex);
  if (subscriber().taken) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscriber().taken = true;
  *out = handle();
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiUnsubscribe(CUpti_SubscriberHandle given) {
  const std::lock_guard lock(subscriber().mutex);
  if (given != handle() || !subscriber().taken) return CUPTI_ERROR_INVALID_PARAMETER;
  subscriber().taken = false;
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle given, CUpti_CallbackDomain) {
  return given == handle() ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
SPILLWAY_EXPORT cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle given, CUpti_CallbackDomain, CUpti_CallbackId) {
  return given == handle() ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

SPILLWAY_EXPORT cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                               CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  cupti::begin();
  cupti::set_buffer_callbacks(request, complete);
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiActivityEnable(CUpti_ActivityKind kind) { return cupti::enable(kind); }
SPILLWAY_EXPORT cuptiActivityDisable(CUpti_ActivityKind kind) { return cupti::disable(kind); }
SPILLWAY_EXPORT cuptiActivityEnableContext(CUcontext, CUpti_ActivityKind kind) { return cupti::enable(kind); }
SPILLWAY_EXPORT cuptiActivityDisableContext(CUcontext, CUpti_ActivityKind kind) { return cupti::disable(kind); }
SPILLWAY_EXPORT cuptiActivityFlushPeriod(uint32_t) { return CUPTI_SUCCESS; }

SPILLWAY_EXPORT cuptiActivityFlushAll(uint32_t) {
  if (!cupti::has_buffer_callbacks()) return CUPTI_ERROR_INVALID_OPERATION;
  cupti::flush();
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig* config,
                                                           uint32_t count) {
  return config == nullptr || count == 0 ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  auto* next = reinterpret_cast<uint8_t*>(*record);
  next = next == nullptr ? buffer : next + size_of((*record)->kind);
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = cupti::take_dropped();
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t* bytes, void* value) {
  return bytes == nullptr || value == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiGetTimestamp(uint64_t* time) {
  if (time == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *time = cupti::virtual_time();
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiGetResultString(CUptiResult result, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
    case CUPTI_SUCCESS:
      *text = "CUPTI_SUCCESS";
      break;
    case CUPTI_ERROR_NOT_READY:
      *text = "CUPTI_ERROR_NOT_READY";
      break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    default:
      *text = "CUPTI_ERROR";
  }
  return CUPTI_SUCCESS;
}

SPILLWAY_EXPORT cuptiFinalize() {
  (void)cupti::disable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
  (void)cupti::disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  return CUPTI_SUCCESS;
}
