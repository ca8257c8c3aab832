// How much memory there is, as the program sees it.
#include "shim/handlers.hpp"

namespace spillway::shim::handlers {

CUresult memory_information(RealCall<PFN_cuMemGetInfo_v3020>& real, size_t* free, size_t* total) {
  return real(free, total);
}

CUresult device_total(RealCall<PFN_cuDeviceTotalMem_v3020>& real, size_t* bytes, CUdevice_v1 dev) {
  return real(bytes, dev);
}

}  // namespace spillway::shim::handlers
