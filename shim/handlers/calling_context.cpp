#include "shim/handlers/calling_context.hpp"

#include "shim/driver.hpp"

namespace spillway::shim {

std::optional<policy::DeviceIndex> current_device() {
  CUdevice device = 0;
  if (driver().cuCtxGetDevice == nullptr || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) return std::nullopt;
  return policy::DeviceIndex{static_cast<std::uint32_t>(device)};
}

CUcontext current_context() {
  CUcontext context = nullptr;
  if (driver().cuCtxGetCurrent == nullptr || driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  return context;
}

std::optional<policy::DeviceIndex> device_of_stream(CUstream stream) {
  const Driver& real = driver();
  CUcontext context = nullptr;
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return std::nullopt;
  if (real.cuStreamGetCtx == nullptr || real.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) return std::nullopt;
  const CurrentContext current(context);
  return current_device();
}

CurrentContext::CurrentContext(CUcontext context)
    : pushed_(context != current_context() && driver().cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (pushed_) driver().cuCtxPopCurrent_v2(&popped);
}

}  // namespace spillway::shim
