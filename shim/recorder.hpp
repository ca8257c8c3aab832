// The steps that launch, copy and fill handlers share: build the record in the thread's ring, make the call, publish
// the record if the driver accepted it. Between the steps nothing is locked, allocated or asked of the driver, but for
// the first launch of a function, for launches made while some stream is being captured, and for those that events are
// recorded for: to time them, or as a mark.
#pragma once

#include <cstring>
#include <type_traits>

#include "shim/launch_arguments.hpp"
#include "shim/launch_path.hpp"
#include "shim/launch_timer.hpp"
#include "shim/progress_marks.hpp"
#include "shim/thread_ring.hpp"

namespace spillway::shim {

// True if this call would go into a graph instead of running. Asks the driver only while something is being captured.
inline bool goes_into_capture(CUstream stream, bool per_thread) {
  if (launch_path().captures.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  return capture_status(stream, per_thread) == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

inline const FunctionRecord* function_record(const void* handle) {
  FunctionTable& functions = launch_path().functions;
  const FunctionRecord* record = functions.find(handle);
  return record != nullptr ? record : functions.learn(handle, driver());
}

// What one kernel launch is, whichever of the driver's calls makes it.
struct LaunchCall {
  const void* function = nullptr;
  std::uint64_t threads = 0;
  const void* const* parameters = nullptr;
  const void* const* extra = nullptr;
  CUstream stream = nullptr;
  bool per_thread = false;
};

// A launch record under construction in the ring; null when nothing is recorded or the ring is full.
inline LaunchRecord* begin_launch(EventRing* ring, const FunctionRecord& function, const LaunchCall& call) {
  constexpr std::size_t kFixed = sizeof(LaunchRecord) / 8;
  const std::size_t room = function.words.size() < kTouchLimit ? function.words.size() : kTouchLimit;
  std::uint64_t* at = ring->reserve(kFixed + room + 2);  // and a ticket, and a mark
  if (at == nullptr) return nullptr;
  auto* record = new (at) LaunchRecord;
  auto* touches = reinterpret_cast<Touch*>(at + kFixed);
  const PointersFound found =
      read_pointers(function, launch_path().addresses, call.parameters, call.extra, touches, room);
  record->header.flags = found.flags;
  record->header.words = static_cast<std::uint16_t>(kFixed + found.count);
  record->header.detail = function.id.value;
  record->header.stream = stream_word(call.stream, call.per_thread);
  record->threads = call.threads;
  return record;
}

// What this launch is to record events for: nothing, for nearly all.
inline unsigned wanted_events(const RecordHeader& header) {
  const unsigned events = launch_path().events.load(std::memory_order_acquire);
  if (events == 0) [[likely]]
    return 0;
  return (header.flags & kCapturing) != 0 ? 0 : events;
}

inline LaunchTimer::Pair* time_record(LaunchRecord& record, const LaunchCall& call) {
  LaunchTimer::Pair* pair = launch_timer().take(call.stream, call.per_thread);
  if (pair == nullptr) return nullptr;
  auto* words = reinterpret_cast<std::uint64_t*>(&record);
  words[record.header.words++] = LaunchTimer::ticket(*pair);
  record.header.flags |= kTimed;
  return pair;
}

// After the driver took the launch.
inline void mark_record(LaunchRecord& record, const LaunchCall& call) {
  const MarkNumber number = progress_marks().launched(call.stream, call.per_thread);
  if (number == 0) return;
  auto* words = reinterpret_cast<std::uint64_t*>(&record);
  words[record.header.words++] = number;
  record.header.flags |= kMarked;
}

inline void publish(EventRing* ring, RecordHeader& header) {
  header.time = ticks(launch_path().use_counter);
  ring->commit(header.words);
}

// What acts before a call hears of its end too, also where the thread is cancelled in it.
class Observed {
 public:
  Observed(LaunchObserver* observer, const RecordHeader& header) : observer_(observer) {
    if (observer_ != nullptr) observer_->before_call(header);
  }
  ~Observed() {
    if (observer_ != nullptr) observer_->after_call();
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  LaunchObserver* observer_;
};

// The pair of a launch that is timed, given back also where the thread is cancelled between its events.
class Timed {
 public:
  explicit Timed(LaunchTimer::Pair* pair) : pair_(pair) {}
  void begin() const {
    if (pair_ != nullptr) [[unlikely]]
      LaunchTimer::begin(*pair_);
  }
  void end(CUresult result) {
    if (pair_ != nullptr) [[unlikely]]
      launch_timer().end(*pair_, result);
    pair_ = nullptr;
  }
  ~Timed() {
    if (pair_ != nullptr) [[unlikely]]
      LaunchTimer::drop(*pair_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  LaunchTimer::Pair* pair_;
};

// `forward` of `not_made_here` makes no call: it was made before.
enum class Forwarding : std::uint8_t { makes_the_call, not_made_here };

// Wraps one launch: `forward` makes the driver's call and returns its code.
template <Forwarding forwarding = Forwarding::makes_the_call, class Forward>
CUresult record_launch(const LaunchCall& call, const Forward& forward) {
  LaunchPath& path = launch_path();
  if (!path.recording.load(std::memory_order_relaxed)) return forward();
  ThreadState& thread = this_thread;
  const FunctionRecord* function = function_record(call.function);
  EventRing* ring = thread_ring(thread);
  if (function == nullptr || ring == nullptr) return forward();
  LaunchRecord* record = nullptr;
  {
    const NoHeapScope no_heap(thread);
    record = begin_launch(ring, *function, call);
  }
  if (record == nullptr) return forward();
  if (goes_into_capture(call.stream, call.per_thread)) [[unlikely]]
    record->header.flags |= kCapturing;
  const unsigned events = wanted_events(record->header);
  LaunchTimer::Pair* pair = nullptr;
  if (forwarding == Forwarding::makes_the_call && (events & kTimesWanted) != 0) [[unlikely]]
    pair = time_record(*record, call);
  CUresult result = CUDA_SUCCESS;
  {
    const Observed observed(path.observer.load(std::memory_order_acquire), record->header);
    Timed timed(pair);
    timed.begin();
    result = forward();  // the only place, so that it is not called as a function
    timed.end(result);
    if ((events & kMarksWanted) != 0 && result == CUDA_SUCCESS) [[unlikely]]
      mark_record(*record, call);
  }
  if (result == CUDA_SUCCESS) {
    const NoHeapScope no_heap(thread);
    publish(ring, record->header);
  }
  return result;
}

// Wraps a copy, fill or graph launch: a small record, published if the driver accepts the call.
template <class Record, class Forward>
CUresult record_call(Record record, RecordKind kind, CUstream stream, bool per_thread, const Forward& forward) {
  static_assert(sizeof(Record) % 8 == 0);
  LaunchPath& path = launch_path();
  EventRing* ring = path.recording.load(std::memory_order_relaxed) ? thread_ring(this_thread) : nullptr;
  if (ring == nullptr) return forward();
  record.header.kind = kind;
  record.header.flags = goes_into_capture(stream, per_thread) ? kCapturing : std::uint8_t{0};
  record.header.words = sizeof(Record) / 8;
  record.header.stream = stream_word(stream, per_thread);
  unsigned events = 0;
  LaunchTimer::Pair* pair = nullptr;
  if constexpr (std::is_same_v<Record, GraphLaunchRecord>) {
    events = wanted_events(record.header);
    if ((events & kTimesWanted) != 0) pair = launch_timer().take(stream, per_thread);
    if (pair != nullptr) record.ticket = LaunchTimer::ticket(*pair);
  }
  CUresult result = CUDA_SUCCESS;
  MarkNumber mark = 0;
  {
    const Observed observed(path.observer.load(std::memory_order_acquire), record.header);
    Timed timed(pair);
    timed.begin();
    result = forward();
    timed.end(result);
    if ((events & kMarksWanted) != 0 && result == CUDA_SUCCESS) mark = progress_marks().launched(stream, per_thread);
    if constexpr (std::is_same_v<Record, GraphLaunchRecord>) record.mark = mark;
  }
  if (result != CUDA_SUCCESS) return result;
  const NoHeapScope no_heap(this_thread);
  if (std::uint64_t* at = ring->reserve(sizeof(Record) / 8)) {
    publish(ring, (new (at) Record(record))->header);
  } else {
    if (pair != nullptr) LaunchTimer::drop(*pair);
    if (mark != 0) progress_marks().drop(mark);
  }
  return result;
}

}  // namespace spillway::shim
