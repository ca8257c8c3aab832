// Stream-ordered allocation and its pools. In a run that may spill, requests of 2 MiB and more are served from managed
// memory (managed_pools.hpp); the others are the driver's, counted against the budget and refused early where it ends.
#include <atomic>

#include "shim/deferred_frees.hpp"
#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/handlers/allocation.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/launch_path.hpp"
#include "shim/log.hpp"
#include "shim/pool_backing.hpp"

namespace spillway::shim::handlers {
namespace {

// The driver's own word on a stream and a pool. By queries that change nothing, also in a capture.
CUresult objection_to(CUstream stream, bool per_thread) {
  const Driver& real = driver();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUstream meant = stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream;
  return real.cuStreamIsCapturing == nullptr ? CUDA_SUCCESS : real.cuStreamIsCapturing(meant, &status);
}
CUresult objection_to(CUmemoryPool pool) {
  const Driver& real = driver();
  cuuint64_t used = 0;
  return real.cuMemPoolGetAttribute == nullptr
             ? CUDA_SUCCESS
             : real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
}

struct OrderedCall {
  const void* caller = nullptr;
  bool per_thread = false;
  CUdeviceptr_v2* out = nullptr;
  std::size_t bytes = 0;
  CUmemoryPool pool = nullptr;  // null: the device's current one
  CUstream stream = nullptr;
};

CUresult allocate_in_order(const OrderedCall& call, policy::DeviceIndex device, Session& session,
                           const std::function<CUresult()>& forward, const std::function<CUresult()>& objection) {
  AllocationRequest request;
  request.device = device;
  request.bytes = policy::Bytes(call.bytes);
  request.kind = policy::AllocationKind::stream_ordered;
  request.stream = stream_word(call.stream, call.per_thread);
  request.caller = call.caller;
  AllocationCalls calls;
  calls.plain = [&] {
    const CUresult result = forward();
    return DriverMemory{result, {result == CUDA_SUCCESS ? *call.out : 0}, policy::Bytes(call.bytes)};
  };
  calls.objection = objection;
  return allocate(session, request, calls);
}

// Memory nodes of graphs are the driver's, and so is the code for what a capture forbids.
bool captures(CUstream stream, bool per_thread) {
  return launch_path().captures.load(std::memory_order_relaxed) != 0 &&
         capture_status(stream, per_thread) != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The pool that the call names or means, if its memory may be ours.
CUmemoryPool served_pool(CUmemoryPool pool, policy::DeviceIndex device) {
  const Driver& real = driver();
  const auto ordinal = static_cast<CUdevice>(device.value);
  if (pool == nullptr && real.cuDeviceGetMemPool(&pool, ordinal) != CUDA_SUCCESS) return nullptr;
  ManagedPools& pools = managed_pools();
  if (pools.serves(pool, device)) return pool;
  CUmemoryPool standard = nullptr;
  if (real.cuDeviceGetDefaultMemPool(&standard, ordinal) != CUDA_SUCCESS || standard != pool) return nullptr;
  pools.pool_seen(pool, {device, ManagedPools::Service::ours});
  cuuint64_t threshold = 0;
  if (real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS)
    pools.set_threshold(pool, policy::Bytes(threshold));
  return pool;
}

// Whose memory the call takes: the device's of the pool that it names, else the one that its stream is on. Nothing for
// a pool that is on the host. What is not known is taken to be on the device that is current.
std::optional<policy::DeviceIndex> device_of(const OrderedCall& call, policy::DeviceIndex current) {
  const Driver& real = driver();
  if (call.pool == nullptr) return device_of_stream(call.stream).value_or(current);
  if (const auto seen = managed_pools().seen(call.pool)) {
    return seen->service == ManagedPools::Service::elsewhere ? std::nullopt : std::optional(seen->device);
  }
  const auto is_default_of = [&](std::uint32_t device) {
    CUmemoryPool standard = nullptr;
    return real.cuDeviceGetDefaultMemPool(&standard, static_cast<CUdevice>(device)) == CUDA_SUCCESS &&
           standard == call.pool;
  };
  int count = 0;
  if (real.cuDeviceGetDefaultMemPool == nullptr || is_default_of(current.value)) return current;
  if (real.cuDeviceGetCount(&count) != CUDA_SUCCESS) return current;
  for (std::uint32_t device = 0; device < static_cast<std::uint32_t>(count); ++device) {
    if (is_default_of(device)) return policy::DeviceIndex{device};
  }
  return current;
}

OrderedHeap::Wait may_wait(CUmemoryPool pool) {
  int allowed = 1;
  driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &allowed);
  return allowed != 0 ? OrderedHeap::Wait::yes : OrderedHeap::Wait::no;
}

// The code, or nothing if the driver's pool shall serve the call.
std::optional<CUresult> serve(const OrderedCall& call, policy::DeviceIndex device, Session& session) {
  if (call.bytes < kSmallestPooled.count() || captures(call.stream, call.per_thread)) return std::nullopt;
  if (session.settings().spill_pools == policy::Switch::off || !session.device_used(device)) return std::nullopt;
  PoolRequest request;
  request.bytes = policy::Bytes(call.bytes);
  request.arena.device = device;
  request.arena.bytes = request.bytes;
  request.arena.kind = policy::AllocationKind::pool_arena;
  request.arena.caller = call.caller;
  request.arena.context = current_context();
  if (!session.may_spill(request.arena)) return std::nullopt;
  CUresult result = CUDA_SUCCESS;
  const auto stream = pool_stream(call.stream, call.per_thread, result);
  if (!stream || stream->context != request.arena.context) return std::nullopt;
  request.stream = *stream;
  request.pool = served_pool(call.pool, device);
  if (request.pool == nullptr) return std::nullopt;
  request.budget = session.budget(device);
  request.may_wait = may_wait(request.pool);
  const PoolAnswer answer = managed_pools().allocate(request);
  if (answer.outcome == PoolAnswer::Outcome::not_ours) return std::nullopt;
  static constinit std::atomic_flag said;  // each time is no news: nothing to be counted at the end
  if (!said.test_and_set(std::memory_order_relaxed))
    SPILLWAY_LOG(info, "stream-ordered memory of {} and more is managed memory, which can spill (memory.spill_pools)",
                 policy::format_bytes(kSmallestPooled));
  if (answer.outcome == PoolAnswer::Outcome::served) {
    *call.out = answer.address.value;
    return CUDA_SUCCESS;
  }
  SPILLWAY_LOG_ONCE(warning,
                    "out of memory: {} asked for from a pool, and neither the device nor the host budget has room "
                    "(memory.device_budget, memory.host_budget)",
                    policy::format_bytes(request.bytes));
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult allocate_from_either(const OrderedCall& call, const std::function<CUresult()>& forward) {
  const auto objection = [&] {
    const CUresult code = objection_to(call.stream, call.per_thread);
    return code == CUDA_SUCCESS && call.pool != nullptr ? objection_to(call.pool) : code;
  };
  Session* session = Session::get();
  const auto current = session == nullptr ? std::nullopt : current_device();
  if (!current || call.out == nullptr || call.bytes == 0 || call.bytes >= kBeyondMemory.count()) return forward();
  const auto device = device_of(call, *current);
  if (!device) return forward();
  if (device == current) {
    if (const auto served = serve(call, *device, *session)) return *served;
  }
  return allocate_in_order(call, *device, *session, forward, objection);
}

}  // namespace

CUresult allocate_async(RealCall<PFN_cuMemAllocAsync_v11020>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                        CUstream h_stream) {
  return real.answer(allocate_from_either({real.caller(), real.per_thread(), dptr, bytesize, nullptr, h_stream},
                                          [&] { return real(dptr, bytesize, h_stream); }));
}

CUresult allocate_from_pool(RealCall<PFN_cuMemAllocFromPoolAsync_v11020>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                            CUmemoryPool pool, CUstream h_stream) {
  if (pool == nullptr) return real(dptr, bytesize, pool, h_stream);
  return real.answer(allocate_from_either({real.caller(), real.per_thread(), dptr, bytesize, pool, h_stream},
                                          [&] { return real(dptr, bytesize, pool, h_stream); }));
}

CUresult free_async(RealCall<PFN_cuMemFreeAsync_v11020>& real, CUdeviceptr_v2 dptr, CUstream h_stream) {
  Session* session = Session::get();
  if (session != nullptr && managed_pools().holds({dptr})) {
    if (captures(h_stream, real.per_thread())) return real(dptr, h_stream);
    // Whatever happens, the driver must not free the arena that this may be the beginning of.
    CUresult result = real.answer(CUDA_ERROR_INVALID_VALUE);
    const auto stream = pool_stream(h_stream, real.per_thread(), result);
    return real.answer(stream ? managed_pools().free_in_order({dptr}, *stream) : result);
  }
  const auto memory = session == nullptr || dptr == 0 ? std::nullopt : session->registered({dptr});
  const bool begins = memory && memory->address.value == dptr;
  // What the program took as plain memory may be freed in a stream's order; managed memory may not, and the driver says
  // so once it finds nothing else wrong.
  if (begins && memory->spilled()) {
    CUresult result = real(dptr, h_stream);
    if (result != CUDA_ERROR_INVALID_VALUE || memory->freeing || captures(h_stream, real.per_thread())) return result;
    const auto stream = pool_stream(h_stream, real.per_thread(), result);
    return real.answer(stream ? deferred_frees().free(*memory, *stream) : result);
  }
  const auto known = begins ? session->begin_free({dptr}, stream_word(h_stream, real.per_thread())) : std::nullopt;
  const CUresult result = real(dptr, h_stream);
  if (known) session->end_free(*known, result);
  return result;
}

CUresult create_pool(RealCall<PFN_cuMemPoolCreate_v11020>& real, CUmemoryPool* pool,
                     const CUmemPoolProps_v1* pool_props) {
  const CUresult result = real(pool, pool_props);
  if (result != CUDA_SUCCESS || Session::get() == nullptr || pool == nullptr) return result;
  // What is shared by handle or has a size of its own stays the driver's.
  using Service = ManagedPools::Service;
  const bool on_device = pool_props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                         pool_props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const bool plain =
      pool_props->handleTypes == CU_MEM_HANDLE_TYPE_NONE && pool_props->maxSize == 0 && pool_props->usage == 0;
  const Service service = !on_device ? Service::elsewhere : plain ? Service::ours : Service::drivers;
  managed_pools().pool_seen(*pool, {{static_cast<std::uint32_t>(pool_props->location.id)}, service});
  return result;
}

CUresult destroy_pool(RealCall<PFN_cuMemPoolDestroy_v11020>& real, CUmemoryPool pool) {
  const CUresult result = real(pool);
  if (result == CUDA_SUCCESS && Session::get() != nullptr) managed_pools().pool_destroyed(pool);
  return result;
}

CUresult trim_pool(RealCall<PFN_cuMemPoolTrimTo_v11020>& real, CUmemoryPool pool, size_t min_bytes_to_keep) {
  const CUresult result = real(pool, min_bytes_to_keep);
  if (result != CUDA_SUCCESS || Session::get() == nullptr) return result;
  cuuint64_t drivers = 0;
  driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &drivers);
  managed_pools().trim(pool, policy::Bytes(min_bytes_to_keep).saturating_minus(policy::Bytes(drivers)));
  return result;
}

CUresult pool_attribute(RealCall<PFN_cuMemPoolGetAttribute_v11020>& real, CUmemoryPool pool, CUmemPool_attribute attr,
                        void* value) {
  const CUresult result = real(pool, attr, value);
  if (result != CUDA_SUCCESS || value == nullptr || Session::get() == nullptr) return result;
  const PoolFigures ours = managed_pools().figures(pool);
  auto* figure = static_cast<cuuint64_t*>(value);
  switch (attr) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *figure += ours.used.count();
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *figure += ours.reserved.count();
      break;
    // Both parts may have been at their highest at different times: no less than the truth.
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *figure += ours.used_peak.count();
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *figure += ours.reserved_peak.count();
      break;
    default:
      break;
  }
  return result;
}

CUresult set_pool_attribute(RealCall<PFN_cuMemPoolSetAttribute_v11020>& real, CUmemoryPool pool,
                            CUmemPool_attribute attr, void* value) {
  const CUresult result = real(pool, attr, value);
  if (result != CUDA_SUCCESS || value == nullptr || Session::get() == nullptr) return result;
  ManagedPools& pools = managed_pools();
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    pools.set_threshold(pool, policy::Bytes(*static_cast<const cuuint64_t*>(value)));
  if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pools.reset_used_peak(pool);
  if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pools.reset_reserved_peak(pool);
  return result;
}

CUresult export_pool_pointer(RealCall<PFN_cuMemPoolExportPointer_v11020>& real, CUmemPoolPtrExportData_v1* share_data,
                             CUdeviceptr_v2 ptr) {
  const CUresult result = real(share_data, ptr);
  if (result != CUDA_SUCCESS && Session::get() != nullptr && managed_pools().holds({ptr})) {
    SPILLWAY_LOG_ONCE(
        warning,
        "stream-ordered memory that may spill cannot be shared with another process; keep it in the driver's "
        "pool with memory.spill_pools = \"off\"");
  }
  return result;
}

}  // namespace spillway::shim::handlers
