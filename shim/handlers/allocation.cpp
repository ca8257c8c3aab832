#include "shim/handlers/allocation.hpp"

#include "shim/deferred_frees.hpp"
#include "shim/driver.hpp"
#include "shim/driver_error.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/launch_path.hpp"
#include "shim/log.hpp"
#include "shim/managed_pools.hpp"

namespace spillway::shim {
namespace {

struct Attempt {
  CUresult result = CUDA_SUCCESS;
  policy::Backing backing = policy::Backing::device;
  bool refused = false;
};

Attempt attempt(Session& session, const AllocationRequest& request, const AllocationCalls& calls) {
  // What pools hold beyond their thresholds is free memory to the program.
  if (request.bytes >= policy::kChunk) managed_pools().release_idle(request.device);
  AllocationAnswer answer = session.request(request);
  const bool again = answer.refused && answer.reason != policy::Reason::oom_first;
  if (again && deferred_frees().settle()) answer = session.request(request);
  if (again && answer.refused && managed_pools().release_unused(request.device)) answer = session.request(request);
  if (answer.refused) {
    const CUresult objection = calls.objection ? calls.objection() : CUDA_SUCCESS;
    if (objection == CUDA_SUCCESS) say_refused(request, answer);
    return {objection == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : objection, answer.backing, true};
  }
  const bool managed = answer.backing == policy::Backing::managed && calls.managed;
  const DriverMemory memory = managed ? calls.managed() : calls.plain();
  session.settle(answer, request, memory.address, memory.bytes, memory.result);
  return {memory.result, answer.backing, false};
}

// Plain memory is forbidden there too, and the capture is spoilt already.
bool capture_forbids(CUresult code) {
  return code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED || code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
         code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

}  // namespace

CUresult allocate(Session& session, AllocationRequest request, const AllocationCalls& calls) {
  if (!session.device_used(request.device)) return calls.plain().result;
  // A map-style handle outlives the context it was made in.
  const bool mapped =
      request.kind == policy::AllocationKind::physical || request.kind == policy::AllocationKind::stretchable;
  request.context = mapped ? nullptr : current_context();
  const Attempt first = attempt(session, request, calls);
  if (first.result == CUDA_SUCCESS || first.refused || !calls.managed) return first.result;
  if (first.backing == policy::Backing::managed) {
    if (first.result == CUDA_ERROR_OUT_OF_MEMORY || capture_forbids(first.result)) return first.result;
    SPILLWAY_LOG_ONCE(warning, "the driver refused {} ({}); this allocation stays plain",
                      mapped ? "host memory for a map-style handle" : "managed memory",
                      error_name({static_cast<std::int32_t>(first.result)}));
    request.kind = mapped ? policy::AllocationKind::physical : policy::AllocationKind::unspillable;
    return attempt(session, request, calls).result;
  }
  if (first.result != CUDA_ERROR_OUT_OF_MEMORY) return first.result;
  // The program's own call is forwarded once: only a managed answer is tried.
  const AllocationCalls spilled{[&] {
                                  return DriverMemory{CUDA_ERROR_OUT_OF_MEMORY, {}, request.bytes};
                                },
                                calls.managed,
                                {}};
  return attempt(session, request, spilled).result;
}

void say_refused(const AllocationRequest& request, const AllocationAnswer& answer) {
  if (answer.reason == policy::Reason::oom_first) {
    SPILLWAY_LOG_ONCE(info,
                      "out of memory said once: {} asked for, {} would spill; asked again it does (memory.oom_first)",
                      policy::format_bytes(request.bytes), policy::format_bytes(answer.missing));
    return;
  }
  const bool host = answer.reason == policy::Reason::host_budget;
  const bool kept_plain = !answer.kept_plain_by.empty();
  const std::uint64_t subject =
      (std::uint64_t{request.device.value} + 1) * 4 + (kept_plain ? 2U : 0U) + (host ? 1U : 0U);
  // Plain memory comes in the driver's blocks, so what is missing may be more than was asked for.
  const bool rounded = !host && request.bytes < policy::kChunk && answer.missing > request.bytes;
  std::string limit = host ? "the host budget (memory.host_budget)" : "the device budget (memory.device_budget)";
  std::string remedy = host         ? "raise it, or end what else uses host memory"
                       : kept_plain ? "raise it, or let the memory spill: " + answer.kept_plain_by + " keeps it plain"
                                    : "raise it; `spillway doctor -- PROGRAM` says what of its memory cannot spill";
  if (host && answer.host_is_full) {
    limit = "the " + policy::format_bytes(answer.host_memory) + " of host memory that there are";
    remedy = "end what else uses host memory, or raise the container's limit (memory.host_budget asks for all of it)";
  }
  SPILLWAY_LOG_FOR(warning, subject, "out of memory: {} asked for{}, {} over {}; {}",
                   policy::format_bytes(request.bytes), rounded ? ", which may take a block of 2 MiB" : "",
                   policy::format_bytes(answer.missing), limit, remedy);
}

DriverMemory allocate_spilled(policy::Bytes bytes) {
  CUdeviceptr address = 0;
  DriverMemory memory;
  memory.result = driver().cuMemAllocManaged(&address, bytes.count(), CU_MEM_ATTACH_GLOBAL);
  memory.address = {address};
  memory.bytes = bytes;
  return memory;
}

CUresult capture_objection(policy::Bytes bytes) {
  const Driver& real = driver();
  if (launch_path().captures.load(std::memory_order_relaxed) == 0 || real.cuMemAllocManaged == nullptr)
    return CUDA_SUCCESS;
  // Managed memory that nobody touches takes none of the device.
  const DriverMemory tried = allocate_spilled(bytes);
  if (tried.result == CUDA_SUCCESS) real.cuMemFree_v2(tried.address.value);
  return capture_forbids(tried.result) ? tried.result : CUDA_SUCCESS;
}

}  // namespace spillway::shim
