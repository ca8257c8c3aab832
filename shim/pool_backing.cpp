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

// While one lives, the context is current; nothing is done if it is already.
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context)
      : pushed_(context != current_context() && driver().cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {}
  ~CurrentContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver().cuCtxPopCurrent_v2(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  bool pushed_;
};

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
  if (answer.refused) return {answer.reason == policy::Reason::oom_first ? final : refused, {}};
  if (answer.backing != policy::Backing::managed) {
    session->settle(answer, request, {}, request.bytes, CUDA_ERROR_NOT_SUPPORTED);
    return {};
  }
  const DriverMemory memory = allocate_spilled(request.bytes);
  session->settle(answer, request, memory.address, memory.bytes, memory.result);
  if (memory.result == CUDA_SUCCESS) return {made, memory.address};
  if (memory.result == CUDA_ERROR_OUT_OF_MEMORY) return {refused, {}};
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
  if (!home->ended) home->idle.push_back(event);
}

std::shared_ptr<DriverBacking::Events> DriverBacking::events_of(CUcontext context) {
  const std::unique_lock lock(mutex_);
  std::shared_ptr<Events>& events = events_[context];
  if (!events) events = std::make_shared<Events>(context);
  return events;
}

std::shared_ptr<FreeMark> DriverBacking::mark(const PoolStream& stream, CUresult& result) {
  auto mark = std::make_shared<EventMark>();
  mark->home = events_of(stream.context);
  {
    const std::unique_lock lock(mark->home->mutex);
    if (!mark->home->idle.empty()) {
      mark->event = mark->home->idle.back();
      mark->home->idle.pop_back();
    }
  }
  const RelaxedCapture relaxed;
  const CurrentContext current(stream.context);
  result = CUDA_SUCCESS;
  if (mark->event == nullptr) result = driver().cuEventCreate(&mark->event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = driver().cuEventRecord(mark->event, stream.handle);
  return result == CUDA_SUCCESS ? mark : nullptr;
}

bool DriverBacking::done(const FreeMark& mark) {
  const auto& of = static_cast<const EventMark&>(mark);
  const std::unique_lock lock(of.home->mutex);
  if (of.home->ended) return true;
  const RelaxedCapture relaxed;
  const CurrentContext current(of.home->context);
  return driver().cuEventQuery(of.event) == CUDA_SUCCESS;
}

bool DriverBacking::wait_in(const PoolStream& stream, const FreeMark& mark) {
  const auto& of = static_cast<const EventMark&>(mark);
  const std::unique_lock lock(of.home->mutex);
  if (of.home->ended) return true;
  const RelaxedCapture relaxed;
  return driver().cuStreamWaitEvent(stream.handle, of.event, 0) == CUDA_SUCCESS;
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

void DriverBacking::context_ended(CUcontext context) {
  std::shared_ptr<Events> gone;
  {
    const std::unique_lock lock(mutex_);
    const auto events = events_.find(context);
    if (events == events_.end()) return;
    gone = std::move(events->second);
    events_.erase(events);
  }
  const std::unique_lock lock(gone->mutex);
  gone->ended = true;
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
