// cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged and cuMemFree.
#include <algorithm>

#include "shim/deferred_frees.hpp"
#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/handlers/allocation.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/launch_path.hpp"
#include "shim/managed_pools.hpp"

namespace spillway::shim::handlers {
namespace {

// What every current device gives; the attribute says less on some, and rows must suit both textures and copies.
constexpr std::size_t kPitchAlignment = 512;

AllocationRequest request_of(policy::DeviceIndex device, std::size_t bytes, policy::AllocationKind kind,
                             const void* caller) {
  AllocationRequest request;
  request.device = device;
  request.bytes = policy::Bytes(bytes);
  request.kind = kind;
  request.caller = caller;
  return request;
}

}  // namespace

CUresult allocate_linear(RealCall<PFN_cuMemAlloc_v3020>& real, CUdeviceptr_v2* dptr, size_t bytesize) {
  Session* session = Session::get();
  const auto device = session == nullptr ? std::nullopt : current_device();
  if (!device || dptr == nullptr || bytesize == 0) return real(dptr, bytesize);
  CUdeviceptr address = 0;
  AllocationCalls calls;
  calls.plain = [&] {
    const CUresult result = real(&address, bytesize);
    return DriverMemory{result, {address}, policy::Bytes(bytesize)};
  };
  calls.managed = [&] {
    const DriverMemory memory = allocate_spilled(policy::Bytes(bytesize));
    address = memory.address.value;
    return memory;
  };
  calls.objection = [&] { return capture_objection(policy::Bytes(bytesize)); };
  const CUresult result =
      allocate(*session, request_of(*device, bytesize, policy::AllocationKind::linear, real.caller()), calls);
  if (result == CUDA_SUCCESS) *dptr = address;
  return real.answer(result);
}

CUresult allocate_pitched(RealCall<PFN_cuMemAllocPitch_v3020>& real, CUdeviceptr_v2* dptr, size_t* p_pitch,
                          size_t width_in_bytes, size_t height, unsigned int element_size_bytes) {
  Session* session = Session::get();
  const auto device = session == nullptr ? std::nullopt : current_device();
  const bool element = element_size_bytes == 4 || element_size_bytes == 8 || element_size_bytes == 16;
  const std::size_t padded = (width_in_bytes + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  std::size_t bytes = 0;
  // Whatever the driver would call invalid, it shall call invalid itself.
  if (!device || dptr == nullptr || p_pitch == nullptr || !element || padded < width_in_bytes ||
      __builtin_mul_overflow(padded, height, &bytes) || bytes == 0) {
    return real(dptr, p_pitch, width_in_bytes, height, element_size_bytes);
  }
  CUdeviceptr address = 0;
  std::size_t pitch = padded;
  AllocationCalls calls;
  calls.plain = [&] {
    const CUresult result = real(&address, &pitch, width_in_bytes, height, element_size_bytes);
    return DriverMemory{result, {address}, policy::Bytes(pitch * height)};
  };
  calls.managed = [&] {
    const DriverMemory memory = allocate_spilled(policy::Bytes(bytes));
    address = memory.address.value;
    return memory;
  };
  calls.objection = [&] { return capture_objection(policy::Bytes(bytes)); };
  const CUresult result =
      allocate(*session, request_of(*device, bytes, policy::AllocationKind::pitched, real.caller()), calls);
  if (result == CUDA_SUCCESS) {
    *dptr = address;
    *p_pitch = pitch;
  }
  return real.answer(result);
}

CUresult free_linear(RealCall<PFN_cuMemFree_v3020>& real, CUdeviceptr_v2 dptr) {
  Session* session = Session::get();
  if (session != nullptr && managed_pools().holds({dptr})) {
    // Whatever happens, the driver must not free the arena that this may be the beginning of. Where a capture forbids
    // cuMemFree it forbids allocations as well. Where it does not (another thread's capture, a relaxed mode) the wait
    // is left out: for a pool's memory the driver takes all use of it as over.
    real.answer(CUDA_ERROR_INVALID_VALUE);
    if (current_context() == nullptr) return real.answer(CUDA_ERROR_INVALID_CONTEXT);
    if (const CUresult objection = capture_objection(policy::kChunk)) return real.answer(objection);
    return real.answer(managed_pools().free_now({dptr}, launch_path().captures.load(std::memory_order_relaxed) == 0));
  }
  if (session != nullptr && deferred_frees().holds(*session, {dptr})) {
    deferred_frees().settle();
    // Freed already, to the program. The driver says so of any address that begins nothing, and must not free this one.
    if (deferred_frees().holds(*session, {dptr})) return real(dptr + 1);
  }
  const auto known = session == nullptr || dptr == 0 ? std::nullopt : session->begin_free({dptr}, 0);
  const CUresult result = real(dptr);
  if (known) session->end_free(*known, result);
  return result;
}

CUresult allocate_managed(RealCall<PFN_cuMemAllocManaged_v6000>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                          unsigned int flags) {
  Session* session = Session::get();
  const auto device = session == nullptr ? std::nullopt : current_device();
  if (!device || dptr == nullptr || bytesize == 0) return real(dptr, bytesize, flags);
  AllocationCalls calls;
  calls.plain = [&] {
    const CUresult result = real(dptr, bytesize, flags);
    return DriverMemory{result, {result == CUDA_SUCCESS ? *dptr : 0}, policy::Bytes(bytesize)};
  };
  const AllocationRequest request =
      request_of(*device, bytesize, policy::AllocationKind::program_managed, real.caller());
  return real.answer(allocate(*session, request, calls));
}

}  // namespace spillway::shim::handlers
