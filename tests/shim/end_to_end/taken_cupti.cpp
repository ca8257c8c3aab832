// A CUPTI that is somebody else's (TAKEN) or forbidden, on a simulated device: what a tool, or a machine that allows no
// counters, makes of it.
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
// Not cupti.h: it has types of its own for what cuda.h declares here.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>

#define ANSWER extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI

ANSWER cuptiGetVersion(uint32_t* version) { return *version = 130000, CUPTI_SUCCESS; }
ANSWER cuptiGetTimestamp(uint64_t* time) { return *time = 1, CUPTI_SUCCESS; }
ANSWER cuptiGetResultString(CUptiResult, const char** text) {
  return *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", CUPTI_SUCCESS;
}
ANSWER cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
#ifdef TAKEN
  return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
#else
  return CUPTI_SUCCESS;
#endif
}
ANSWER cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }
ANSWER cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc) {
  return CUPTI_SUCCESS;
}
ANSWER cuptiActivityEnable(CUpti_ActivityKind) { return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES; }
ANSWER cuptiActivityDisable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
ANSWER cuptiActivityFlushAll(uint32_t) { return CUPTI_SUCCESS; }
ANSWER cuptiActivityGetNextRecord(uint8_t*, size_t, CUpti_Activity**) { return CUPTI_ERROR_MAX_LIMIT_REACHED; }
ANSWER cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) { return *dropped = 0, CUPTI_SUCCESS; }
ANSWER cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig*, uint32_t) {
  return CUPTI_ERROR_NOT_SUPPORTED;
}
