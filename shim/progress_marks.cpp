#include "shim/progress_marks.hpp"

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"

namespace spillway::shim {

ProgressMarks& progress_marks() {
  static ProgressMarks* const marks = new ProgressMarks;
  return *marks;
}

void ProgressMarks::want(policy::DecisionId mark) {
  std::uint64_t latest = wanted_.load(std::memory_order_relaxed);
  while (latest < mark.value && !wanted_.compare_exchange_weak(latest, mark.value, std::memory_order_relaxed)) {
  }
  if (latest < mark.value) launch_path().events.fetch_or(kMarkWanted, std::memory_order_acq_rel);
}

void ProgressMarks::launched(CUstream stream, bool per_thread) {
  if (const CUresult code = refused(); code != CUDA_SUCCESS) return refuse(code);  // wanted meanwhile
  const CUstream meant = meant_stream(stream, per_thread);
  const CUcontext context = context_for_event(meant);
  Place* place = context == nullptr ? nullptr : contexts_.place_of(context);
  if (place == nullptr || recording_.test_and_set(std::memory_order_acquire)) return;
  record(*place, meant);
  recording_.clear(std::memory_order_release);
}

void ProgressMarks::record(Place& place, CUstream stream) {
  const std::uint64_t marks = wanted_.load(std::memory_order_relaxed);
  const std::uint32_t number = recorded_.load(std::memory_order_relaxed);
  if (marks != covered_) {  // else another launch was quicker
    if (number - passed_.load(std::memory_order_acquire) == kMost) return;
    const CUevent event = place.events[place.next % kMost];
    if (const CUresult code = driver().cuEventRecord(event, stream); code != CUDA_SUCCESS) return refuse(code);
    ++place.next;
    covered_ = marks;
    out_[number % kMost] = {&place, place.use, event, marks};
    recorded_.store(number + 1, std::memory_order_release);
  }
  auto& events = launch_path().events;
  events.fetch_and(~kMarkWanted, std::memory_order_acq_rel);
  // Wanted since: that was before the bit was taken away, or the bit is there again.
  if (wanted_.load(std::memory_order_relaxed) != marks) events.fetch_or(kMarkWanted, std::memory_order_acq_rel);
}

ProgressMarks::Progress ProgressMarks::look() {
  const auto make = [this](Place& place) { return fill(place); };
  const auto is_vacant = [](const Place&) { return true; };
  if (refused() == CUDA_SUCCESS && !contexts_.make_wanted(is_vacant, make)) refuse(CUDA_ERROR_NOT_SUPPORTED);
  std::uint32_t passed = passed_.load(std::memory_order_relaxed);
  bool out = false;
  while (refused() == CUDA_SUCCESS && passed != recorded_.load(std::memory_order_acquire)) {
    const Out& oldest = out_[passed % kMost];
    const std::lock_guard lock(contexts_.mutex);
    out = !is_done(oldest);
    if (out) break;
    progress_ = {oldest.marks};
    passed_.store(++passed, std::memory_order_release);
  }
  return {progress_, refused(), out && refused() == CUDA_SUCCESS};
}

bool ProgressMarks::fill(Place& place) {
  for (std::size_t index = 0; index < kMost; ++index) {
    const CUresult code = driver().cuEventCreate(&place.events[index], CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS) continue;
    while (index > 0) driver().cuEventDestroy_v2(place.events[--index]);
    refuse(code);
    return false;
  }
  return true;
}

bool ProgressMarks::is_done(const Out& out) {
  const Place& place = *out.place;
  if (place.use != out.use) return true;
  if (place.ending != nullptr) return false;
  const RelaxedCapture relaxed;
  const CurrentContext current(place.context.load(std::memory_order_relaxed));
  const CUresult code = driver().cuEventQuery(out.event);
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY) refuse(code);
  return code == CUDA_SUCCESS;
}

void ProgressMarks::refuse(CUresult code) {
  CUresult none = CUDA_SUCCESS;
  refused_.compare_exchange_strong(none, code, std::memory_order_relaxed);
  launch_path().events.fetch_and(~kMarkWanted, std::memory_order_acq_rel);
}

void ProgressMarks::end_context_end(CUcontext context, CUresult result) {
  contexts_.end_end(context, result, [](Place& place) { ++place.use; });
}

}  // namespace spillway::shim
