// The driver's event calls. Times are virtual.
#include <algorithm>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {

CUresult event_create(CUevent* handle, unsigned int flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
  if (interprocess && (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = flags;
  event->time = std::make_shared<std::int64_t>(0);
  *handle = reinterpret_cast<CUevent>(event.get());
  world().events[*handle] = event;
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent handle, CUstream stream_handle) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  SPILLWAY_RETURN_IF_FAILED(find_stream(stream_handle, stream));
  SPILLWAY_RETURN_IF_FAILED(find_event(handle, event));
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->capture_tail = stream->capture_tail;
    return CUDA_SUCCESS;
  }
  event->capture.reset();
  event->time = std::make_shared<std::int64_t>(0);
  event->recorded = true;
  Operation operation;
  operation.run = [time = event->time](std::int64_t start) { return *time = start; };
  enqueue(stream, std::move(operation));
  event->ticket = {stream, stream->enqueued};
  return CUDA_SUCCESS;
}

CUresult event_record_with_flags(CUevent event, CUstream stream, unsigned int) { return event_record(event, stream); }

CUresult event_query(CUevent handle) {
  std::shared_ptr<Event> event;
  SPILLWAY_RETURN_IF_FAILED(find_event(handle, event));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  pump();
  if (!event->done()) return CUDA_ERROR_NOT_READY;
  const bool past = *event->time <= thread_time();
  advance_thread_to(*event->time);
  return past ? world().sticky : CUDA_ERROR_NOT_READY;
}

CUresult event_synchronize(CUevent handle) {
  std::shared_ptr<Event> event;
  SPILLWAY_RETURN_IF_FAILED(find_event(handle, event));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  if (event->capture) {
    event->capture->invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  wait_until([&] { return event->done(); });
  advance_thread_to(*event->time);
  return world().sticky;
}

CUresult event_destroy(CUevent handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  return world().events.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult event_elapsed_time(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  SPILLWAY_RETURN_IF_FAILED(find_event(start_handle, start));
  SPILLWAY_RETURN_IF_FAILED(find_event(end_handle, end));
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool untimed = ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0;
  if (untimed || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->done() || !end->done() || std::max(*start->time, *end->time) > thread_time()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(*end->time - *start->time) / 1e6F;
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated::driver
