// The driver's stream calls.
#include <algorithm>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

constexpr unsigned kWaitEqual = CU_STREAM_WAIT_VALUE_EQ;

bool value_reached(std::uint64_t address, cuuint32_t wanted, unsigned condition) {
  const cuuint32_t now = __atomic_load_n(reinterpret_cast<const cuuint32_t*>(address), __ATOMIC_ACQUIRE);
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::int32_t>(now - wanted) >= 0;
    case kWaitEqual:
      return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & wanted) != 0;
    default:
      return ~(now | wanted) != 0;
  }
}

CUresult find_any(CUstream handle, std::shared_ptr<Stream>& out) {
  const CUresult found = find_stream(handle, out, OnCapture::only_refuse);
  return out ? CUDA_SUCCESS : found;  // asking a legacy stream about itself disturbs no capture
}

}  // namespace

CUresult stream_create(CUstream* stream, unsigned int flags) { return stream_create_with_priority(stream, flags, 0); }

CUresult stream_create_with_priority(CUstream* handle, unsigned int flags, int priority) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (handle == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto stream = make_stream(*context, flags, std::clamp(priority, -5, 0), StreamKind::created);
  *handle = reinterpret_cast<CUstream>(stream.get());
  world().streams[*handle] = stream;
  return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const auto found = world().streams.find(handle);
  if (found == world().streams.end()) return CUDA_ERROR_INVALID_HANDLE;
  const auto stream = found->second;
  leave_capture(*stream);
  // Its remaining work still runs (the real call returns at once); waiting is the simple way to the same results.
  wait_for(stream);
  world().streams.erase(handle);
  return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  wait_for(stream);
  if (stream->kind == StreamKind::legacy_default) {
    for (const auto& [other_handle, other] : std::unordered_map(world().streams)) {
      if (other->context == stream->context && other->blocking()) wait_for(other);
    }
  }
  return world().sticky;
}

CUresult stream_query(CUstream handle) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  pump();
  if (!idle(*stream)) return CUDA_ERROR_NOT_READY;
  // Not ready once, while the virtual clock has not come there; a poll takes the thread there.
  const bool past = stream->ready_time <= thread_time();
  advance_thread_to(stream->ready_time);
  return past ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult stream_wait_event(CUstream handle, CUevent event_handle, unsigned int) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(find_event(event_handle, event));
  if (event->capture) return join_capture(stream, *event);
  if (stream->capture) {
    stream->capture->invalidated = true;  // waiting for uncaptured work would escape the graph
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!event->recorded) return CUDA_SUCCESS;
  Operation wait;
  wait.after.push_back(event->ticket);
  const auto time = event->time;
  wait.run = [time](std::int64_t start) { return std::max(start, *time); };
  enqueue(stream, std::move(wait));
  return CUDA_SUCCESS;
}

CUresult stream_add_callback(CUstream handle, CUstreamCallback callback, void* data, unsigned int) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Operation operation;
  operation.host_function = [=] { callback(handle, CUDA_SUCCESS, data); };
  enqueue(stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult launch_host_func(CUstream handle, CUhostFn function, void* data) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return capture_node(*stream, HostCall{function, data});
  enqueue_body(stream, HostCall{function, data});
  return CUDA_SUCCESS;
}

CUresult stream_get_priority(CUstream handle, int* priority) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_any(handle, stream));
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult stream_get_flags(CUstream handle, unsigned int* flags) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_any(handle, stream));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult stream_get_ctx(CUstream handle, CUcontext* context) { return stream_get_ctx(handle, context, nullptr); }

CUresult stream_get_ctx(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_any(handle, stream));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = handle_of(stream->context);
  if (green != nullptr) *green = nullptr;
  return CUDA_SUCCESS;
}

CUresult stream_get_id(CUstream handle, unsigned long long* id) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_any(handle, stream));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult stream_get_device(CUstream handle, CUdevice* device) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_any(handle, stream));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device;
  return CUDA_SUCCESS;
}

CUresult stream_wait_value32(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  if (world().memory.containing(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Operation operation;
  operation.ready = [=] { return value_reached(address, value, flags & 3U); };
  enqueue(stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult stream_write_value32(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned int) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  SPILLWAY_RETURN_IF_FAILED(forbid_on_capturing(stream));
  if (world().memory.containing(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Operation operation;
  operation.run = [=](std::int64_t start) {
    __atomic_store_n(reinterpret_cast<cuuint32_t*>(address), value, __ATOMIC_RELEASE);
    return start;
  };
  enqueue(stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult stream_attach_mem_async(CUstream handle, CUdeviceptr address, size_t, unsigned int) {
  std::shared_ptr<Stream> stream;
  SPILLWAY_RETURN_IF_FAILED(find_stream(handle, stream));
  const Allocation* allocation = world().memory.exact(address);
  return allocation != nullptr && allocation->kind == MemoryKind::managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace spillway::simulated::driver
