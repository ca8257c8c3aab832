#include "shim/pool_backing.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "shim/advice.hpp"
#include "shim/deferred_frees.hpp"
#include "shim/driver.hpp"
#include "shim/driver_error.hpp"
#include "shim/handlers/allocation.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/log.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {
namespace {

constexpr std::uint64_t kPerThreadKey = std::uint64_t{1} << 63U;
// Before memory is refused. Longer than any sound stream takes to its next free; what is beyond is held up.
constexpr std::chrono::seconds kWaitForStreams{2};
constexpr std::chrono::microseconds kBetweenLooks{200};
// For a driver that is stuck in a query.
constexpr std::chrono::seconds kWaitForCalls{2};

// Numbers of threads, never given twice: the per-thread stream of an ended thread is no other thread's.
std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> last{0};
  if (this_thread.pool_number == 0) this_thread.pool_number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return this_thread.pool_number;
}

}  // namespace

std::optional<PoolStream> pool_stream(CUstream stream, bool per_thread, CUresult& result) {
  PoolStream named;
  named.handle = stream != nullptr ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  named.context = current_context();
  named.key = {reinterpret_cast<std::uintptr_t>(named.handle)};
  if (named.handle == CU_STREAM_PER_THREAD) named.key = {kPerThreadKey | thread_number()};
  result = named.context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
  if (named.handle != CU_STREAM_PER_THREAD && named.handle != CU_STREAM_LEGACY) {
    result = driver().cuStreamGetCtx(named.handle, &named.context);
  }
  return result == CUDA_SUCCESS ? std::optional(named) : std::nullopt;
}

GrownArena DriverBacking::make_arena(const AllocationRequest& request) {
  using enum GrownArena::Outcome;
  Session* session = Session::get();
  if (session == nullptr) return {};
  // Stream-ordered allocation is allowed beside any capture of another stream.
  const RelaxedCapture relaxed;
  AllocationAnswer answer = session->request(request);
  const bool again = answer.refused && answer.reason != policy::Reason::oom_first;
  if (again && deferred_frees().settle()) answer = session->request(request);
  if (answer.refused && answer.reason == policy::Reason::oom_first) {
    say_refused(request, answer);
    return {final, {}};
  }
  if (answer.refused) return {refused, {}};
  if (answer.backing != policy::Backing::managed) {
    session->settle(answer, request, {}, request.bytes, CUDA_ERROR_NOT_SUPPORTED);
    return {};
  }
  const DriverMemory memory = allocate_spilled(request.bytes);
  session->settle(answer, request, memory.address, memory.bytes, memory.result);
  if (memory.result == CUDA_SUCCESS) return {made, memory.address};
  if (memory.result == CUDA_ERROR_OUT_OF_MEMORY) return {full, {}};
  SPILLWAY_LOG_ONCE(warning, "the driver refused managed memory ({}); this allocation stays in the driver's pool",
                    error_name({static_cast<std::int32_t>(memory.result)}));
  return {};
}

bool DriverBacking::free_arena(policy::Address arena, CUcontext context) {
  Session* session = Session::get();
  const RelaxedCapture relaxed;
  const CurrentContext current(context);
  const auto known = session == nullptr ? std::nullopt : session->begin_free(arena, 0);
  if (!known) return false;
  const CUresult result = driver().cuMemFree_v2(arena.value);
  session->end_free(*known, result);
  return result == CUDA_SUCCESS;
}

DriverBacking::EventMark::~EventMark() {
  if (!home || event == nullptr) return;
  const std::unique_lock lock(home->mutex);
  if (home->life != Events::Life::ended) home->idle.push_back(event);
}

std::shared_ptr<DriverBacking::Events> DriverBacking::events_of(CUcontext context) {
  const std::unique_lock lock(mutex_);
  std::shared_ptr<Events>& events = events_[context];
  if (!events) events = std::make_shared<Events>(context);
  return events;
}

CUresult DriverBacking::record(const EventMark& mark) {
  const RelaxedCapture relaxed;
  const CurrentContext current(mark.home->context);
  CUresult result = CUDA_SUCCESS;
  if (mark.event == nullptr) result = driver().cuEventCreate(&mark.event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = driver().cuEventRecord(mark.event, mark.where.handle);
  mark.recorded = result == CUDA_SUCCESS;
  return result;
}

// A later event is as good, as long as there is the stream.
bool DriverBacking::recorded(const EventMark& mark) {
  if (mark.recorded) return true;
  if (mark.where.handle == nullptr) return false;
  const bool per_thread = mark.where.handle == CU_STREAM_PER_THREAD;
  if (per_thread && mark.where.key.value != (kPerThreadKey | thread_number())) return false;
  return record(mark) == CUDA_SUCCESS;
}

std::shared_ptr<FreeMark> DriverBacking::mark(const PoolStream& stream, CUresult& result) {
  auto mark = std::make_shared<EventMark>();
  mark->home = events_of(stream.context);
  mark->where = stream;
  {
    std::unique_lock lock(mark->home->mutex);
    if (!mark->home->idle.empty()) {
      mark->event = mark->home->idle.back();
      mark->home->idle.pop_back();
    }
    result = mark->home->unlocked(lock, [&] { return record(*mark); });
    if (result == CUDA_SUCCESS) return mark;
    mark->home->unrecorded.push_back(mark);
  }
  // Is it the stream, or only our event? The program's free is no worse for the latter.
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto asked = driver().cuStreamIsCapturing;
  if (asked == nullptr || asked(stream.handle, &status) != CUDA_SUCCESS) return nullptr;
  SPILLWAY_LOG_ONCE(warning,
                    "the driver refused an event ({}): memory freed in a stream's order is kept for that stream until "
                    "one can be had",
                    error_name({static_cast<std::int32_t>(result)}));
  result = CUDA_SUCCESS;
  return mark;
}

void DriverBacking::stream_gone(StreamKey stream) {
  std::vector<std::shared_ptr<Events>> all;
  {
    const std::unique_lock lock(mutex_);
    for (const auto& [context, events] : events_) all.push_back(events);
  }
  for (const auto& events : all) {
    std::vector<std::shared_ptr<EventMark>> held;  // outlives the lock, which the end of a mark takes
    const std::unique_lock lock(events->mutex);
    std::erase_if(events->unrecorded, [&](const auto& weak) {
      const auto mark = weak.lock();
      if (!mark) return true;
      held.push_back(mark);
      if (mark->where.key != stream) return mark->recorded;
      recorded(*mark);
      mark->where.handle = nullptr;
      return true;
    });
  }
}

bool DriverBacking::done(const FreeMark& mark) {
  const auto& of = static_cast<const EventMark&>(mark);
  std::unique_lock lock(of.home->mutex);
  if (of.home->life != Events::Life::lives) return of.home->life == Events::Life::ended;
  if (!recorded(of)) return false;
  const CUresult result = of.home->unlocked(lock, [&] {
    const RelaxedCapture relaxed;
    const CurrentContext current(of.home->context);
    return driver().cuEventQuery(of.event);
  });
  return result == CUDA_SUCCESS || of.home->life == Events::Life::ended;
}

bool DriverBacking::wait_in(const PoolStream& stream, const FreeMark& mark) {
  const auto& of = static_cast<const EventMark&>(mark);
  std::unique_lock lock(of.home->mutex);
  if (of.home->life != Events::Life::lives) return of.home->life == Events::Life::ended;
  if (!recorded(of)) return false;
  const CUresult result = of.home->unlocked(lock, [&] {
    const RelaxedCapture relaxed;
    return driver().cuStreamWaitEvent(stream.handle, of.event, 0);
  });
  return result == CUDA_SUCCESS || of.home->life == Events::Life::ended;
}

// A stream may be held up by the very thread that waits here, so that it is asked about, and given up.
void DriverBacking::wait_for(const FreeMarks& marks) {
  const auto until = std::chrono::steady_clock::now() + kWaitForStreams;
  for (const auto& mark : marks) {
    while (!done(*mark)) {
      if (std::chrono::steady_clock::now() >= until) return;
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

// Not relaxed: what a capture forbids of cuMemFree, it forbids of this, and the program gets the driver's code.
CUresult DriverBacking::wait_for(CUcontext context) {
  const CurrentContext current(context);
  return driver().cuCtxSynchronize();
}

std::shared_ptr<DriverBacking::Events> DriverBacking::begin_context_end(CUcontext context) {
  std::shared_ptr<Events> going;
  {
    const std::unique_lock lock(mutex_);
    const auto events = events_.find(context);
    if (events == events_.end()) return nullptr;
    going = std::move(events->second);
    events_.erase(events);
  }
  std::unique_lock lock(going->mutex);
  going->life = Events::Life::ends;
  going->back.wait_for(lock, kWaitForCalls, [&] { return going->calls == 0; });
  return going;
}

void DriverBacking::end_context_end(CUcontext context, const std::shared_ptr<Events>& events, CUresult result) {
  if (!events) return;
  {
    const std::unique_lock lock(events->mutex);
    events->life = result == CUDA_SUCCESS ? Events::Life::ended : Events::Life::lives;
  }
  const std::unique_lock lock(mutex_);
  if (result != CUDA_SUCCESS) events_.try_emplace(context, events);
}

DriverBacking& driver_backing() {
  static DriverBacking* const backing = new DriverBacking;
  return *backing;
}

ManagedPools& managed_pools() {
  static ManagedPools* const pools = new ManagedPools(driver_backing());
  return *pools;
}

}  // namespace spillway::shim
