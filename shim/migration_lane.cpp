#include "shim/migration_lane.hpp"

#include <algorithm>

#include "policy/own_context.hpp"
#include "shim/advice.hpp"
#include "shim/driver.hpp"

namespace spillway::shim {
namespace {

// Large enough for nearly the full rate (48 of 50 GB/s inward), small enough that a call ends within some milliseconds.
constexpr policy::Bytes kLargestCall = policy::Bytes(std::uint64_t{64} << 20);

// 524 MiB at default limits (docs/driver_facts.md). More was other processes' that started meanwhile.
constexpr policy::Bytes kMostForAContext = policy::Bytes(std::uint64_t{640} << 20);

policy::DriverResult result_of(CUresult code) { return {static_cast<std::int32_t>(code)}; }

std::size_t free_memory(const Driver& real) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (real.cuMemGetInfo_v2 == nullptr || real.cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return 0;
  return free;
}

CUresult create_context(const Driver& real, CUcontext* context, CUdevice device) {
  constexpr unsigned kFlags = CU_CTX_SCHED_BLOCKING_SYNC;
  if (real.cuCtxCreate_v2 != nullptr) return real.cuCtxCreate_v2(context, kFlags, device);
  if (real.cuCtxCreate_v4 != nullptr) return real.cuCtxCreate_v4(context, nullptr, kFlags, device);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

policy::Bytes memory_of_context(policy::Bytes gone) {
  return gone > kMostForAContext ? policy::kLargestOwnContext : gone;
}

MigrationContext::Made MigrationContext::enter(policy::DeviceIndex device) {
  Made made;
  // Nothing may be thrown through call_once (Session::start).
  std::call_once(once_, [&] {
    try {
      made_ = make(device);
    } catch (...) {
      made_ = result_of(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made.tried_now = true;
    made.took = took_;
  });
  made.result = made_.ok() ? result_of(driver().cuCtxSetCurrent(context_)) : made_;
  return made;
}

void MigrationContext::note_free(policy::DeviceIndex device) {
  const Driver& real = driver();
  CUdevice current = 0;
  if (free_before_.load() != 0 || real.cuCtxGetDevice == nullptr || real.cuCtxGetDevice(&current) != CUDA_SUCCESS)
    return;
  std::size_t none = 0;
  if (static_cast<std::uint32_t>(current) == device.value)
    free_before_.compare_exchange_strong(none, free_memory(real));
}

policy::DriverResult MigrationContext::make(policy::DeviceIndex device) {
  const Driver& real = driver();
  if (real.cuDeviceGet == nullptr || real.cuStreamCreate == nullptr || real.cuCtxSetCurrent == nullptr) {
    return result_of(CUDA_ERROR_NOT_SUPPORTED);
  }
  CUresult code = real.cuDeviceGet(&device_, static_cast<int>(device.value));
  if (code != CUDA_SUCCESS) return result_of(code);
  // Without a word of the program's, by the primary context; it stays until ours is made, else what it takes itself
  // would hide what ours takes.
  CUcontext primary = nullptr;
  std::size_t before = free_before_.load();
  if (before == 0 && real.cuDevicePrimaryCtxRetain != nullptr &&
      real.cuDevicePrimaryCtxRetain(&primary, device_) == CUDA_SUCCESS) {
    CUcontext popped = nullptr;
    if (real.cuCtxPushCurrent_v2(primary) == CUDA_SUCCESS) {
      before = free_memory(real);
      real.cuCtxPopCurrent_v2(&popped);
    }
  }
  code = create_context(real, &context_, device_);
  if (code != CUDA_SUCCESS) {
    if (primary != nullptr) real.cuDevicePrimaryCtxRelease_v2(device_);
    return result_of(code);
  }
  // No kernel runs here, so none of these need room: 392 MiB instead of 524 (docs/driver_facts.md). A refusal costs
  // memory only.
  if (real.cuCtxSetLimit != nullptr) {
    real.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 256);
    real.cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 4096);
    real.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 4096);
  }
  const std::size_t after = free_memory(real);
  // Without both figures nothing is known: a guess could take the whole budget.
  took_ = memory_of_context(policy::Bytes(after != 0 && before > after ? before - after : 0));
  CUcontext popped = nullptr;
  real.cuCtxPopCurrent_v2(&popped);  // making it had put it on this thread's stack
  if (primary != nullptr) real.cuDevicePrimaryCtxRelease_v2(device_);
  return {};
}

policy::DriverResult MigrationStream::make() {
  return result_of(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
}

policy::DriverResult MigrationStream::prefetch(CUdevice device, policy::Address address, policy::Bytes bytes,
                                               policy::Placement to) {
  const Driver& real = driver();
  const bool inward = to == policy::Placement::device || to == policy::Placement::duplicated;
  for (policy::Bytes done; done < bytes; done += kLargestCall) {
    const std::size_t size = std::min(kLargestCall, bytes - done).count();
    const CUdeviceptr start = (address + done).value;
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;
    if (real.cuMemPrefetchAsync_v2 != nullptr) {
      CUmemLocation location{};
      location.type = inward ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST;
      location.id = inward ? device : 0;
      code = real.cuMemPrefetchAsync_v2(start, size, location, 0, stream_);
    } else if (real.cuMemPrefetchAsync != nullptr) {
      code = real.cuMemPrefetchAsync(start, size, inward ? device : CU_DEVICE_CPU, stream_);
    }
    if (code != CUDA_SUCCESS) return result_of(code);
  }
  return result_of(real.cuStreamSynchronize(stream_));
}

void MigrationStream::end() { driver().cuStreamDestroy_v2(stream_); }

policy::DriverResult prefetch_from_here(policy::DeviceIndex device, policy::Address address, policy::Bytes bytes,
                                        policy::Placement to) {
  if (driver().cuStreamCreate == nullptr || driver().cuStreamDestroy_v2 == nullptr)
    return result_of(CUDA_ERROR_NOT_SUPPORTED);
  const RelaxedCapture relaxed;
  MigrationStream stream;
  if (const policy::DriverResult made = stream.make(); !made.ok()) return made;
  const policy::DriverResult result = stream.prefetch(static_cast<CUdevice>(device.value), address, bytes, to);
  stream.end();
  return result;
}

}  // namespace spillway::shim
