// Memory shared with other processes and interfaces: imports are not ours to count, exports of spilled memory get the
// driver's own code and one line that says what to do.
#include "shim/handlers.hpp"
#include "shim/log.hpp"
#include "shim/session.hpp"

namespace spillway::shim::handlers {

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
  return real(pdptr, handle, flags);
}

CUresult close_ipc(RealCall<PFN_cuIpcCloseMemHandle_v4010>& real, CUdeviceptr_v2 dptr) { return real(dptr); }

CUresult import_external(RealCall<PFN_cuImportExternalMemory_v10000>& real, CUexternalMemory* ext_mem_out,
                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1* mem_handle_desc) {
  return real(ext_mem_out, mem_handle_desc);
}

CUresult map_external(RealCall<PFN_cuExternalMemoryGetMappedBuffer_v10000>& real, CUdeviceptr_v2* dev_ptr,
                      CUexternalMemory ext_mem, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1* buffer_desc) {
  return real(dev_ptr, ext_mem, buffer_desc);
}

CUresult destroy_external(RealCall<PFN_cuDestroyExternalMemory_v10000>& real, CUexternalMemory ext_mem) {
  return real(ext_mem);
}

}  // namespace spillway::shim::handlers
