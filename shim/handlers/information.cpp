// How much memory there is, as the program sees it: one documented switch (memory.report), and both answers agree.
#include "shim/handlers.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/session.hpp"

namespace spillway::shim::handlers {

CUresult memory_information(RealCall<PFN_cuMemGetInfo_v3020>& real, size_t* free, size_t* total) {
  const CUresult result = real(free, total);
  Session* session = Session::get();
  if (result != CUDA_SUCCESS || session == nullptr || free == nullptr || total == nullptr) return result;
  const auto device = current_device();
  if (!device) return result;
  session->device_used(*device);
  if (const auto reported = session->reported_memory(*device, policy::Bytes(*free), policy::Bytes(*total))) {
    *free = reported->free.count();
    *total = reported->total.count();
  }
  return result;
}

CUresult device_total(RealCall<PFN_cuDeviceTotalMem_v3020>& real, size_t* bytes, CUdevice_v1 dev) {
  const CUresult result = real(bytes, dev);
  Session* session = Session::get();
  if (result != CUDA_SUCCESS || session == nullptr || bytes == nullptr) return result;
  const auto total = session->reported_total({static_cast<std::uint32_t>(dev)}, policy::Bytes(*bytes));
  if (total) *bytes = total->count();
  return result;
}

}  // namespace spillway::shim::handlers
