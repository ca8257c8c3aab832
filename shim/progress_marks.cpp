#include "shim/progress_marks.hpp"

#include <algorithm>
#include <utility>

#include "shim/driver.hpp"
#include "shim/launch_path.hpp"
#include "shim/uncancelled.hpp"

namespace spillway::shim {

using policy::LaunchNumber;

ProgressMarks& progress_marks() {
  static ProgressMarks* const marks = new ProgressMarks;
  return *marks;
}

void ProgressMarks::want(std::uint64_t every) {
  every_.store(every, std::memory_order_relaxed);
  auto& events = launch_path().events;
  if (every == 0) {
    events.fetch_and(~kMarksWanted, std::memory_order_acq_rel);
    return;
  }
  events.fetch_or(kMarksWanted, std::memory_order_acq_rel);
  // Refused meanwhile: that was before the bit was set, or it has been taken away again.
  if (const CUresult code = refused(); code != CUDA_SUCCESS) refuse(code);
}

MarkNumber ProgressMarks::launched(CUstream stream, bool per_thread) {
  const std::uint64_t every = every_.load(std::memory_order_relaxed);
  const std::uint64_t launches = launches_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (every == 0 || launches < every || full() || refused() != CUDA_SUCCESS) return 0;
  const Uncancelled held;  // the launch is to be told, and the flag to be cleared
  const CUstream meant = meant_stream(stream, per_thread);
  const CUcontext context = context_for_event(meant);
  Place* place = context == nullptr ? nullptr : contexts_.place_of(context);
  if (place == nullptr) return 0;
  if (recording_.test_and_set(std::memory_order_acquire)) return 0;
  // Else another launch was quicker.
  const bool due = launches_.load(std::memory_order_relaxed) >= every && !full();
  const MarkNumber number = due ? record(*place, meant) : 0;
  recording_.clear(std::memory_order_release);
  return number;
}

bool ProgressMarks::full() const {
  return recorded_.load(std::memory_order_relaxed) - over_.load(std::memory_order_acquire) >= kMost;
}

MarkNumber ProgressMarks::record(Place& place, CUstream stream) {
  const CUevent event = place.events[place.next % kMost];
  if (const CUresult code = driver().cuEventRecord(event, stream); code != CUDA_SUCCESS) {
    refuse(code);
    return 0;
  }
  ++place.next;
  launches_.store(0, std::memory_order_relaxed);
  const MarkNumber number = recorded_.load(std::memory_order_relaxed) + 1;
  Mark& of = mark(number);
  of.place = &place;
  of.use = place.use;
  of.event = event;
  of.launch.store(kUntold, std::memory_order_relaxed);
  recorded_.store(number, std::memory_order_release);
  return number;
}

void ProgressMarks::told(MarkNumber number, LaunchNumber launch) {
  mark(number).launch.store(launch.value, std::memory_order_release);
}

ProgressMarks::Progress ProgressMarks::look() {
  const auto make = [this](Place& place) { return fill(place); };
  const auto is_vacant = [](const Place&) { return true; };
  if (refused() == CUDA_SUCCESS && !contexts_.make_wanted(is_vacant, make)) refuse(CUDA_ERROR_NOT_SUPPORTED);
  LaunchNumber passed = latest_;
  MarkNumber over = over_.load(std::memory_order_relaxed);
  bool out = false;
  while (refused() == CUDA_SUCCESS && over != recorded_.load(std::memory_order_acquire)) {
    const EventContexts<Place>::Use use(contexts_);
    out = !is_over(mark(over + 1), passed);
    if (out) break;
    over_.store(++over, std::memory_order_release);
  }
  const bool is_further = std::exchange(latest_, passed) != passed;
  return {is_further ? passed : LaunchNumber{}, refused(), out && refused() == CUDA_SUCCESS};
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

bool ProgressMarks::is_over(const Mark& mark, LaunchNumber& passed) {
  const std::uint64_t launch = mark.launch.load(std::memory_order_acquire);
  if (launch == kUntold) return false;
  const Place& place = *mark.place;
  if (launch == 0 || place.use != mark.use) return true;
  if (place.ending != nullptr) return false;
  const RelaxedCapture relaxed;
  const CurrentContext current(place.context.load(std::memory_order_relaxed));
  const CUresult code = driver().cuEventQuery(mark.event);
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY) refuse(code);
  // Threads' launches are told in another order than they were marked in, now and then.
  if (code == CUDA_SUCCESS) passed = std::max(passed, LaunchNumber{launch});
  return code == CUDA_SUCCESS;
}

void ProgressMarks::refuse(CUresult code) {
  CUresult none = CUDA_SUCCESS;
  refused_.compare_exchange_strong(none, code, std::memory_order_relaxed);
  launch_path().events.fetch_and(~kMarksWanted, std::memory_order_acq_rel);
}

void ProgressMarks::begin_context_end(CUcontext context) {
  if (!contexts_.begin_end(context)) refuse(CUDA_ERROR_TIMEOUT);
}

void ProgressMarks::end_context_end(CUcontext context, CUresult result) {
  if (!contexts_.end_end(context, result, [](Place& place) { ++place.use; })) refuse(CUDA_ERROR_TIMEOUT);
}

}  // namespace spillway::shim
