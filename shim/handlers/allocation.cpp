#include "shim/handlers/allocation.hpp"

#include "shim/advice.hpp"
#include "shim/driver.hpp"
#include "shim/driver_error.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/log.hpp"

namespace spillway::shim {
namespace {

struct Attempt {
  CUresult result = CUDA_SUCCESS;
  policy::Backing backing = policy::Backing::device;
  bool refused = false;
};

Attempt attempt(Session& session, const AllocationRequest& request, const AllocationCalls& calls) {
  const AllocationAnswer answer = session.request(request);
  if (answer.refused) return {CUDA_ERROR_OUT_OF_MEMORY, answer.backing, true};
  const bool managed = answer.backing == policy::Backing::managed && calls.managed;
  const DriverMemory memory = managed ? calls.managed() : calls.plain();
  session.settle(answer, request, memory.address, memory.bytes, memory.result);
  return {memory.result, answer.backing, false};
}

}  // namespace

CUresult allocate(Session& session, AllocationRequest request, const AllocationCalls& calls) {
  if (!session.device_used(request.device)) return calls.plain().result;
  request.context = current_context();
  const Attempt first = attempt(session, request, calls);
  if (first.result == CUDA_SUCCESS || first.refused || !calls.managed) return first.result;
  if (first.backing == policy::Backing::managed) {
    if (first.result == CUDA_ERROR_OUT_OF_MEMORY) return first.result;
    SPILLWAY_LOG(warning, "the driver refused managed memory ({}); this allocation stays plain",
                 error_name({static_cast<std::int32_t>(first.result)}));
    request.kind = policy::AllocationKind::unspillable;
    return attempt(session, request, calls).result;
  }
  if (first.result != CUDA_ERROR_OUT_OF_MEMORY) return first.result;
  // The program's own call is forwarded once: only a managed answer is tried.
  const AllocationCalls spilled{[&] {
                                  return DriverMemory{CUDA_ERROR_OUT_OF_MEMORY, {}, request.bytes};
                                },
                                calls.managed};
  return attempt(session, request, spilled).result;
}

DriverMemory allocate_spilled(policy::Bytes bytes) {
  const RelaxedCapture relaxed;
  CUdeviceptr address = 0;
  DriverMemory memory;
  memory.result = driver().cuMemAllocManaged(&address, bytes.count(), CU_MEM_ATTACH_GLOBAL);
  memory.address = {address};
  memory.bytes = bytes;
  return memory;
}

}  // namespace spillway::shim
