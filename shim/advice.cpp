#include "shim/advice.hpp"

#include "shim/cuda_driver.hpp"
#include "shim/driver.hpp"

namespace spillway::shim {
namespace {

struct DriverAdvice {
  CUmem_advise advice;
  bool names_host;
};

DriverAdvice driver_advice(policy::Advice advice) {
  switch (advice) {
    case policy::Advice::accessed_by:
      return {CU_MEM_ADVISE_SET_ACCESSED_BY, false};
    case policy::Advice::unset_accessed_by:
      return {CU_MEM_ADVISE_UNSET_ACCESSED_BY, false};
    case policy::Advice::prefer_host:
      return {CU_MEM_ADVISE_SET_PREFERRED_LOCATION, true};
    case policy::Advice::prefer_device:
      return {CU_MEM_ADVISE_SET_PREFERRED_LOCATION, false};
    case policy::Advice::unset_preferred:
      return {CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, false};
    case policy::Advice::read_mostly:
      return {CU_MEM_ADVISE_SET_READ_MOSTLY, false};
    case policy::Advice::unset_read_mostly:
      return {CU_MEM_ADVISE_UNSET_READ_MOSTLY, false};
    case policy::Advice::probe:
      break;
  }
  return {CU_MEM_ADVISE_SET_ACCESSED_BY, false};
}

// Measured: without AccessedBy, a preference for the device takes the mappings of host pages away and moves nothing;
// the one for the host makes the next fault map the page where it is.
policy::DriverResult unmap_on_host(policy::DeviceIndex device, policy::Address address, policy::Bytes bytes) {
  using policy::Advice;
  for (const Advice step : {Advice::unset_accessed_by, Advice::prefer_device, Advice::prefer_host}) {
    if (const policy::DriverResult result = give_advice(device, address, bytes, step); !result.ok()) {
      // Half of it would let pages move by faults.
      give_advice(device, address, bytes, Advice::prefer_host);
      give_advice(device, address, bytes, Advice::accessed_by);
      return result;
    }
  }
  return {};
}

}  // namespace

policy::DriverResult give_advice(policy::DeviceIndex device, policy::Address address, policy::Bytes bytes,
                                 policy::Advice advice) {
  if (advice == policy::Advice::probe) return unmap_on_host(device, address, bytes);
  const Driver& real = driver();
  const DriverAdvice wanted = driver_advice(advice);
  const int ordinal = static_cast<int>(device.value);
  const RelaxedCapture relaxed;
  CUresult code = CUDA_ERROR_NOT_SUPPORTED;
  if (real.cuMemAdvise_v2 != nullptr) {
    CUmemLocation location{};
    location.type = wanted.names_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = wanted.names_host ? 0 : ordinal;
    code = real.cuMemAdvise_v2(address.value, bytes.count(), wanted.advice, location);
  } else if (real.cuMemAdvise != nullptr) {
    code = real.cuMemAdvise(address.value, bytes.count(), wanted.advice, wanted.names_host ? CU_DEVICE_CPU : ordinal);
  }
  return {static_cast<std::int32_t>(code)};
}

RelaxedCapture::RelaxedCapture() {
  if (driver().cuThreadExchangeStreamCaptureMode == nullptr) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  changed_ = driver().cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
  mode_ = static_cast<int>(mode);
}

RelaxedCapture::~RelaxedCapture() {
  if (!changed_) return;
  auto mode = static_cast<CUstreamCaptureMode>(mode_);
  driver().cuThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace spillway::shim
