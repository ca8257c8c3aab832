#include "shim/event_contexts.hpp"

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"

namespace spillway::shim {

CUstream meant_stream(CUstream stream, bool per_thread) {
  if (stream != nullptr) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

CUcontext context_for_event(CUstream meant) {
  if (launch_path().captures.load(std::memory_order_relaxed) != 0) return nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const auto is_capturing = driver().cuStreamIsCapturing;
  if (is_capturing == nullptr || is_capturing(meant, &status) != CUDA_SUCCESS) return nullptr;
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) return nullptr;
  if (meant == CU_STREAM_PER_THREAD || meant == CU_STREAM_LEGACY) return current_context();
  CUcontext context = nullptr;
  const auto ask = driver().cuStreamGetCtx;
  return ask != nullptr && ask(meant, &context) == CUDA_SUCCESS ? context : nullptr;
}

}  // namespace spillway::shim
