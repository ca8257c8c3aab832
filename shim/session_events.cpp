// The session's way from what the hooks recorded to policy's events.
#include <algorithm>
#include <utility>

#include "shim/advice.hpp"
#include "shim/driver.hpp"
#include "shim/launch_timer.hpp"
#include "shim/log.hpp"
#include "shim/session.hpp"
#include "shim/thread_state.hpp"
#include "shim/uncancelled.hpp"

namespace spillway::shim {

using policy::Nanoseconds;

void Session::drain(Work& work) {
  RingRegistry& rings = launch_path().rings;
  // What is recorded meanwhile has no time yet, and a program that launches on would never let it end.
  rings.drain([&](const RecordHeader& record) { take(record, work); }, ticks_.synchronize());
  if (const std::uint64_t dropped = rings.take_dropped(); dropped > 0) {
    dropped_ += dropped;
    decide_at(last_time_, policy::EventsDropped{dropped}, work);
  }
}

void Session::take(const RecordHeader& record, Work& work) {
  // In the modes that act before a call, policy was told before it was made; and what was captured did not run.
  if (acts_before_launches_ || (record.flags & kCapturing) != 0) return;
  tell(record, ticks_.monotonic(record.time), work);
}

void Session::tell(const RecordHeader& record, std::int64_t moment, Work& work) {
  const Nanoseconds time = since_start(moment);
  const policy::StreamId stream = stream_of(record.stream);
  switch (record.kind) {
    case RecordKind::launch: {
      const auto& launch = reinterpret_cast<const LaunchRecord&>(record);
      const std::span<const Touch> touches(launch.touches(), launch.touch_count());
      const policy::LaunchShapeId shape = shape_of(launch.function(), launch.threads, touches, time, work);
      decide_at(time, policy::Launched{shape, stream}, work);
      if (launch.timed()) launch_timer().told(launch.ticket(), engine_.launches());
      if (launch.marked()) progress_marks().told(launch.mark(), engine_.launches());
      watch_launch(shape, stream, policy::kernel_key(function_keys_[launch.header.detail], launch.threads), moment);
      break;
    }
    case RecordKind::graph_launch: {
      const auto& launch = reinterpret_cast<const GraphLaunchRecord&>(record);
      const auto graph = graphs_.find(reinterpret_cast<CUgraphExec>(launch.executable));
      // Not known: instantiated before we listened, or by a way that we do not know.
      const bool known = graph != graphs_.end();
      if (known) decide_at(time, policy::GraphLaunched{graph->second, stream}, work);
      const policy::LaunchNumber number = known ? engine_.launches() : policy::LaunchNumber{};
      if (launch.ticket != 0) launch_timer().told(launch.ticket, number);
      if (launch.mark != 0) progress_marks().told(launch.mark, number);
      if (!known) break;
      if (const std::uint64_t kernels = kernels_of_graph_[graph->second]; kernels > 0) {
        const policy::LaunchShapeId graph_shape{graph->second.value | (std::uint32_t{1} << 31U)};
        watch_launch(graph_shape, policy::kGraphLane, policy::graph_key(kernels), moment);
      }
      break;
    }
    case RecordKind::copy: {
      const auto& copy = reinterpret_cast<const CopyRecord&>(record);
      const auto kind = static_cast<policy::CopyKind>(record.detail);
      decide_at(time, policy::Copied{stream, kind, {copy.destination}, {copy.source}, policy::Bytes(copy.bytes)}, work);
      break;
    }
    case RecordKind::fill: {
      const auto& fill = reinterpret_cast<const FillRecord&>(record);
      decide_at(time, policy::Filled{stream, {fill.address}, policy::Bytes(fill.bytes)}, work);
      break;
    }
  }
}

policy::LaunchShapeId Session::shape_of(policy::FunctionId function, std::uint64_t threads,
                                        std::span<const Touch> touches, Nanoseconds time, Work& work) {
  if (function.value >= functions_told_.size()) {
    functions_told_.resize(function.value + 1);
    function_keys_.resize(function.value + 1);
  }
  if (!functions_told_[function.value]) {
    functions_told_[function.value] = true;
    const std::string name = launch_path().functions.name_of(function);
    function_keys_[function.value] = policy::name_key(name);
    decide_at(time, policy::FunctionSeen{function, name}, work);
  }
  arguments_.clear();
  for (const Touch touch : touches) arguments_.push_back({touch.argument(), {touch.address()}});
  const policy::LaunchShapes::Answer answer = shapes_.intern(function, threads, arguments_);
  if (answer.is_new) decide_at(time, policy::LaunchShapeSeen{answer.shape, function, threads, arguments_}, work);
  return answer.shape;
}

void Session::watch_launch(policy::LaunchShapeId shape, policy::StreamId stream, policy::KernelKey key,
                           std::int64_t time) {
  if (!telemetry_ || (!telemetry_->watching() && !acts_before_launches_)) return;
  // A launch told before its call has no time yet.
  const Nanoseconds moment((time != 0 ? time : now()) - started_);
  telemetry_->launched({engine_.launches(), shape, stream, key, moment, policy::Recorded::no});
}

void Session::tell_calls(Work& work) {
  if (!trace_.on()) return;
  for (const HookRow& row : kHooks) {
    bool& told = calls_told_[index_of(row.id)];
    if (told || hook_count(row.id) == 0) continue;
    told = true;
    decide(policy::CallSeen{row.symbol}, work);
  }
}

policy::StreamId Session::stream_of(std::uint64_t word) {
  if (word == 0) return {};
  const auto [entry, inserted] = streams_.try_emplace(word, policy::StreamId{last_stream_ + 1});
  if (inserted) ++last_stream_;
  return entry->second;
}

policy::CallerId Session::caller_of(const Library& library, Work& work) {
  if (library.base == nullptr) return {};
  const auto next = policy::CallerId{static_cast<std::uint32_t>(callers_.size() + 1)};
  const auto [entry, inserted] = callers_.try_emplace(library.base, next);
  if (inserted) decide(policy::CallerSeen{next, library.path}, work);
  return entry->second;
}

void Session::before_call(const RecordHeader& record) noexcept {
  // A call that goes into a graph uses nothing now.
  if ((record.flags & kCapturing) != 0) return;
  // Told before the driver decides, a launch that it refuses for another reason than an empty grid counts all the same.
  if (record.kind == RecordKind::launch && reinterpret_cast<const LaunchRecord&>(record).threads == 0) return;
  const Uncancelled held;
  try {
    take_turn();
    Work work;
    {
      const std::unique_lock lock(mutex_);
      drain(work);
      tell(record, now(), work);
    }
    finish_launches(work);
    carry_out(work);
    wait_for_room(work);
  } catch (...) {
    // Without memory for our own books the call goes on as it is.
  }
}

void Session::after_call() noexcept { give_turn(); }

void Session::take_turn() {
  if (!acts_before_launches_) return;
  const LaunchTurns::Turn turn = turns_.take();
  this_thread.has_turn = turn == LaunchTurns::Turn::mine;
  if (turn != LaunchTurns::Turn::given_up) return;
  SPILLWAY_LOG_ONCE(
      warning,
      "a launch waited {} s for another thread's; from now on threads launch side by side, and what they bring "
      "in at once may exceed the budget",
      kWaitForTurn.count());
}

void Session::give_turn() {
  if (std::exchange(this_thread.has_turn, false)) turns_.give();
}

void Session::finish_launches(const Work& work) const {
  // The baselines pay for that, as the driver's own eviction makes them pay. Not while a capture is under way, which
  // would not survive it; relaxed, as one may begin now.
  const bool captures = launch_path().captures.load(std::memory_order_relaxed) != 0;
  if (!acts_before_launches_ || !work.blocking() || captures) return;
  const RelaxedCapture relaxed;
  driver().cuCtxSynchronize();
}

void Session::graph_seen(CUgraphExec executable, std::span<const GraphKernel> kernels) noexcept {
  try {
    Work work;
    {
      const std::unique_lock lock(mutex_);
      const std::int64_t moment = now();
      drain(work);
      const Nanoseconds time = since_start(moment);
      policy::GraphSeen seen;
      const auto entry = graphs_.find(executable);
      seen.graph = entry == graphs_.end() ? policy::GraphId{++last_graph_} : entry->second;
      graphs_[executable] = seen.graph;
      for (const GraphKernel& kernel : kernels) {
        seen.shapes.push_back(shape_of(kernel.function, kernel.threads, kernel.touches, time, work));
      }
      kernels_of_graph_[seen.graph] = kernels.size();
      decide_at(time, std::move(seen), work);
    }
    carry_out(work);
  } catch (...) {
  }
}

void Session::graph_going(CUgraphExec executable) noexcept {
  try {
    Work work;
    {
      const std::unique_lock lock(mutex_);
      drain(work);
      graphs_.erase(executable);
    }
    carry_out(work);
  } catch (...) {
  }
}

}  // namespace spillway::shim
