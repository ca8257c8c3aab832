// Sharing memory with other processes. Exported memory becomes a file, which the importer opens through the exporter's
// process folder.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

struct Ticket {
  pid_t process;
  int file;
  std::uint64_t bytes;
  std::uint64_t mark;
};
constexpr std::uint64_t kMark = 0x5350494C4C574159;
static_assert(sizeof(Ticket) <= CU_IPC_HANDLE_SIZE);

// Puts the allocation's bytes into a file and maps that at the same address.
bool share(Allocation& allocation) {
  if (allocation.shared_file >= 0) return true;
  const int file = memfd_create("simulated-device-ipc", MFD_CLOEXEC);
  void* place = reinterpret_cast<void*>(allocation.address);
  const bool copied =
      file >= 0 && ftruncate(file, static_cast<off_t>(allocation.reserved)) == 0 &&
      pwrite(file, place, allocation.reserved, 0) == static_cast<ssize_t>(allocation.reserved) &&
      mmap(place, allocation.reserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  if (!copied) {
    if (file >= 0) close(file);
    return false;
  }
  allocation.shared_file = file;
  return true;
}

}  // namespace

CUresult ipc_get_mem_handle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Allocation* allocation = world().memory.containing(pointer);
  if (handle == nullptr || allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (allocation->kind != MemoryKind::device) return CUDA_ERROR_INVALID_VALUE;  // measured for managed memory
  if (allocation->charged == 0)
    return CUDA_ERROR_NOT_SUPPORTED;  // a piece of a shared block: below 1 MiB, not simulated
  if (!share(*allocation)) return CUDA_ERROR_OUT_OF_MEMORY;
  const Ticket ticket{getpid(), allocation->shared_file, allocation->reserved, kMark};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle->reserved, &ticket, sizeof ticket);
  return CUDA_SUCCESS;
}

CUresult ipc_open_mem_handle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned int flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Ticket ticket{};
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  if (pointer == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || ticket.mark != kMark)
    return CUDA_ERROR_INVALID_VALUE;
  if (ticket.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // an exporter cannot import its own
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket.process, ticket.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  const auto address = world().memory.device_space().take(ticket.bytes, kChunkBytes);
  const bool mapped = address && mmap(reinterpret_cast<void*>(*address), ticket.bytes, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  close(file);
  if (!mapped) return CUDA_ERROR_MAP_FAILED;
  Allocation imported;
  imported.address = *address;
  imported.bytes = imported.reserved = ticket.bytes;
  imported.kind = MemoryKind::imported;
  imported.context = context;
  imported.device = context->device;
  world().memory.note(std::move(imported));
  *pointer = *address;
  return CUDA_SUCCESS;
}

CUresult ipc_close_mem_handle(CUdeviceptr pointer) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  const Allocation* allocation = world().memory.exact(pointer);
  if (allocation == nullptr || allocation->kind != MemoryKind::imported) return CUDA_ERROR_INVALID_VALUE;
  wait_for_device(allocation->device);
  world().memory.release(pointer);
  return CUDA_SUCCESS;
}

CUresult ipc_get_event_handle(CUipcEventHandle*, CUevent) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult ipc_open_event_handle(CUevent*, CUipcEventHandle) { return CUDA_ERROR_NOT_SUPPORTED; }

}  // namespace spillway::simulated::driver
