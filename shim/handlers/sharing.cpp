// Memory shared with other processes and interfaces. What comes in is there already, and counts against the budget of
// whoever made it: here it is only seen (kind `imported`), so that launches that name it are whole in the trace.
// Exports of spilled memory get the driver's own code and one line that says what to do.
#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/log.hpp"
#include "shim/session.hpp"

namespace spillway::shim::handlers {
namespace {

void note_import(CUdeviceptr address, std::size_t bytes, const void* caller) {
  Session* session = Session::get();
  const auto device = session == nullptr ? std::nullopt : current_device();
  // A second opening gives the address of the first.
  if (!device || bytes == 0 || session->registered({address}) || !session->device_used(*device)) return;
  AllocationRequest request;
  request.device = *device;
  request.bytes = policy::Bytes(bytes);
  request.kind = policy::AllocationKind::imported;
  request.caller = caller;
  request.context = current_context();
  session->settle(session->request(request), request, {address}, request.bytes, CUDA_SUCCESS);
}

}  // namespace

CUresult export_ipc(RealCall<PFN_cuIpcGetMemHandle_v4010>& real, CUipcMemHandle_v1* p_handle, CUdeviceptr_v2 dptr) {
  const CUresult result = real(p_handle, dptr);
  Session* session = Session::get();
  if (result == CUDA_SUCCESS || session == nullptr) return result;
  const auto memory = session->registered({dptr});
  if (memory && memory->spilled()) {
    SPILLWAY_LOG_ONCE(
        warning,
        "memory that may spill cannot be shared with another process ({}); keep it plain with a rule that has "
        "backing = \"device\", or with memory.backing = \"device\"",
        policy::format_bytes(memory->bytes));
  }
  return result;
}

CUresult import_ipc(RealCall<PFN_cuIpcOpenMemHandle_v4010>& real, CUdeviceptr_v2* pdptr, CUipcMemHandle_v1 handle,
                    unsigned int flags) {
  const CUresult result = real(pdptr, handle, flags);
  const auto range_of = driver().cuMemGetAddressRange_v2;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (result == CUDA_SUCCESS && pdptr != nullptr && range_of != nullptr &&
      range_of(&base, &bytes, *pdptr) == CUDA_SUCCESS)
    note_import(*pdptr, base + bytes - *pdptr, real.caller());
  return result;
}

CUresult close_ipc(RealCall<PFN_cuIpcCloseMemHandle_v4010>& real, CUdeviceptr_v2 dptr) {
  Session* session = Session::get();
  const auto memory = session == nullptr ? std::nullopt : session->registered({dptr});
  const bool imported = memory && memory->kind == policy::AllocationKind::imported;
  const auto known = imported ? session->begin_free({dptr}, 0) : std::nullopt;
  const CUresult result = real(dptr);
  if (known) session->end_free(*known, result);
  return result;
}

CUresult import_external(RealCall<PFN_cuImportExternalMemory_v10000>& real, CUexternalMemory* ext_mem_out,
                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1* mem_handle_desc) {
  return real(ext_mem_out, mem_handle_desc);
}

CUresult map_external(RealCall<PFN_cuExternalMemoryGetMappedBuffer_v10000>& real, CUdeviceptr_v2* dev_ptr,
                      CUexternalMemory ext_mem, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1* buffer_desc) {
  const CUresult result = real(dev_ptr, ext_mem, buffer_desc);
  // It ends by cuMemFree.
  if (result == CUDA_SUCCESS && dev_ptr != nullptr && buffer_desc != nullptr)
    note_import(*dev_ptr, buffer_desc->size, real.caller());
  return result;
}

CUresult destroy_external(RealCall<PFN_cuDestroyExternalMemory_v10000>& real, CUexternalMemory ext_mem) {
  return real(ext_mem);
}

}  // namespace spillway::shim::handlers
