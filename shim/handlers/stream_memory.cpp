// Stream-ordered allocation and its pools: counted against the budget; refused early where the budget ends, as they
// cannot be spilled.
#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/handlers/allocation.hpp"
#include "shim/handlers/calling_context.hpp"

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

CUresult allocate_in_order(const void* caller, std::uint64_t stream, const CUdeviceptr_v2* out, size_t bytes,
                           const std::function<CUresult()>& call, const std::function<CUresult()>& objection) {
  Session* session = Session::get();
  const auto device = session == nullptr ? std::nullopt : current_device();
  if (!device || out == nullptr || bytes == 0) return call();
  AllocationRequest request;
  request.device = *device;
  request.bytes = policy::Bytes(bytes);
  request.kind = policy::AllocationKind::stream_ordered;
  request.stream = stream;
  request.caller = caller;
  AllocationCalls calls;
  calls.plain = [&] {
    const CUresult result = call();
    return DriverMemory{result, {result == CUDA_SUCCESS ? *out : 0}, policy::Bytes(bytes)};
  };
  calls.objection = objection;
  return allocate(*session, request, calls);
}

}  // namespace

CUresult allocate_async(RealCall<PFN_cuMemAllocAsync_v11020>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                        CUstream h_stream) {
  return real.answer(allocate_in_order(
      real.caller(), stream_word(h_stream, real.per_thread()), dptr, bytesize,
      [&] { return real(dptr, bytesize, h_stream); }, [&] { return objection_to(h_stream, real.per_thread()); }));
}

CUresult allocate_from_pool(RealCall<PFN_cuMemAllocFromPoolAsync_v11020>& real, CUdeviceptr_v2* dptr, size_t bytesize,
                            CUmemoryPool pool, CUstream h_stream) {
  return real.answer(allocate_in_order(
      real.caller(), stream_word(h_stream, real.per_thread()), dptr, bytesize,
      [&] { return real(dptr, bytesize, pool, h_stream); },
      [&] {
        const CUresult code = objection_to(h_stream, real.per_thread());
        return code == CUDA_SUCCESS ? objection_to(pool) : code;
      }));
}

CUresult free_async(RealCall<PFN_cuMemFreeAsync_v11020>& real, CUdeviceptr_v2 dptr, CUstream h_stream) {
  Session* session = Session::get();
  const auto memory = session == nullptr || dptr == 0 ? std::nullopt : session->registered({dptr});
  const auto known = memory && memory->address.value == dptr
                         ? session->begin_free({dptr}, stream_word(h_stream, real.per_thread()))
                         : std::nullopt;
  CUresult result = real(dptr, h_stream);
  // What the program took as plain memory may be freed in a stream's order; managed memory may not. cuMemFree waits for
  // all work that uses it, which is in order too.
  if (result == CUDA_ERROR_INVALID_VALUE && known && memory->spilled()) {
    result = real.answer(driver().cuMemFree_v2(dptr));
  }
  if (known) session->end_free(*known, result);
  return result;
}

CUresult create_pool(RealCall<PFN_cuMemPoolCreate_v11020>& real, CUmemoryPool* pool,
                     const CUmemPoolProps_v1* pool_props) {
  return real(pool, pool_props);
}

CUresult destroy_pool(RealCall<PFN_cuMemPoolDestroy_v11020>& real, CUmemoryPool pool) { return real(pool); }

CUresult trim_pool(RealCall<PFN_cuMemPoolTrimTo_v11020>& real, CUmemoryPool pool, size_t min_bytes_to_keep) {
  return real(pool, min_bytes_to_keep);
}

}  // namespace spillway::shim::handlers
