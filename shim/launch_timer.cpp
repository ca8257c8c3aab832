#include "shim/launch_timer.hpp"

#include <algorithm>
#include <limits>

#include "shim/advice.hpp"
#include "shim/driver.hpp"
#include "shim/handlers/calling_context.hpp"
#include "shim/launch_path.hpp"
#include "shim/ticks.hpp"

namespace spillway::shim {

using policy::LaunchNumber;
using policy::Nanoseconds;

namespace {

// Multiples of the golden ratio's part of 2^64 fall evenly whatever is counted, so that no launch of an iteration is
// always left out.
constexpr std::uint64_t kGoldenPart = 0x9E3779B97F4A7C15ULL;

CUstream meant_stream(CUstream stream, bool per_thread) {
  if (stream != nullptr) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

CUcontext context_of(CUstream stream) {
  if (stream == CU_STREAM_PER_THREAD || stream == CU_STREAM_LEGACY) return current_context();
  CUcontext context = nullptr;
  const auto ask = driver().cuStreamGetCtx;
  return ask != nullptr && ask(stream, &context) == CUDA_SUCCESS ? context : nullptr;
}

// Nothing is recorded where that is not sure: an event would become a part of the graph.
bool surely_not_capturing(CUstream stream) {
  if (launch_path().captures.load(std::memory_order_relaxed) != 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const auto ask = driver().cuStreamIsCapturing;
  return ask != nullptr && ask(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

class LaunchTimer::Pair {
 public:
  enum class State : std::uint8_t {
    free,
    taken,      // its launching thread's
    recorded,   // the driver's, and then telemetry's
    abandoned,  // nothing was measured
    measured,
  };
  // `taken` is left by the thread that took it, the others by telemetry's.
  std::atomic<State> state{State::free};

  // Changed by telemetry's thread while the pair is free.
  CUevent begin = nullptr;
  CUevent end = nullptr;
  std::uint32_t number = 0;
  std::uint32_t use = 0;  // how often it was freed; with the tickets' lock

  // Of the thread that took it.
  CUstream stream = nullptr;
  CUresult refused = CUDA_SUCCESS;
  std::int64_t called = 0;
  std::int64_t returned = 0;

  // With the tickets' lock.
  bool is_told = false;
  LaunchNumber launch;
};

LaunchTimer& launch_timer() {
  static LaunchTimer* const timer = new LaunchTimer;
  return *timer;
}

LaunchTimer::Pair* LaunchTimer::take(CUstream stream, bool per_thread) {
  const std::uint64_t count = launches_.fetch_add(1, std::memory_order_relaxed);
  if (count * kGoldenPart >= share_.load(std::memory_order_relaxed)) return nullptr;
  const CUstream meant = meant_stream(stream, per_thread);
  if (!surely_not_capturing(meant)) return nullptr;
  const CUcontext context = context_of(meant);
  if (context == nullptr) return nullptr;
  Pool* pool = pool_of(context);
  if (pool == nullptr) {
    want(context);
    return nullptr;
  }
  const std::uint32_t index = pool->next.fetch_add(1, std::memory_order_relaxed);
  if (index >= kPairs) return nullptr;
  Pair& pair = pool->pairs[index];
  Pair::State expected = Pair::State::free;
  if (!pair.state.compare_exchange_strong(expected, Pair::State::taken, std::memory_order_acquire)) return nullptr;
  pair.stream = meant;
  return &pair;
}

TimerTicket LaunchTimer::ticket(const Pair& pair) { return (std::uint64_t{pair.use} << 32U) | pair.number; }

void LaunchTimer::begin(Pair& pair) {
  pair.called = now();
  pair.refused = driver().cuEventRecord(pair.begin, pair.stream);
}

void LaunchTimer::end(Pair& pair, CUresult result) {
  pair.returned = now();
  // Where the launch has failed too, it is the program's affair.
  if (result == CUDA_SUCCESS && pair.refused == CUDA_SUCCESS) {
    pair.refused = driver().cuEventRecord(pair.end, pair.stream);
  }
  const bool ours = result == CUDA_SUCCESS && pair.refused != CUDA_SUCCESS;
  if (ours) fail(pair.refused);
  pair.state.store(result == CUDA_SUCCESS && !ours ? Pair::State::recorded : Pair::State::abandoned,
                   std::memory_order_release);
}

void LaunchTimer::drop(Pair& pair) { pair.state.store(Pair::State::abandoned, std::memory_order_release); }

void LaunchTimer::told(TimerTicket ticket, LaunchNumber launch) {
  const auto number = static_cast<std::uint32_t>(ticket) - 1;
  const std::lock_guard lock(tickets_);
  Pair& pair = pools_[number / kPairs].pairs[number % kPairs];
  if (pair.use != ticket >> 32U) return;  // its context has ended since
  pair.is_told = true;
  pair.launch = launch;
}

void LaunchTimer::open(policy::LaunchCount window) {
  const std::uint64_t stride = std::max(kLeastStride, (window.count() + kPairs - 1) / kPairs);
  share_.store(std::numeric_limits<std::uint64_t>::max() / stride, std::memory_order_relaxed);
  for (Pool& pool : pools_) pool.next.store(0, std::memory_order_relaxed);
  if (!failure()) launch_path().timer.store(this, std::memory_order_release);
}

void LaunchTimer::close() { launch_path().timer.store(nullptr, std::memory_order_release); }

void LaunchTimer::fail(CUresult code) {
  CUresult none = CUDA_SUCCESS;
  failure_.compare_exchange_strong(none, code, std::memory_order_relaxed);
  close();
}

std::optional<CUresult> LaunchTimer::failure() const {
  const CUresult code = failure_.load(std::memory_order_relaxed);
  return code == CUDA_SUCCESS ? std::nullopt : std::optional(code);
}

Nanoseconds LaunchTimer::since_start(std::int64_t monotonic) const { return Nanoseconds(monotonic - started_); }

LaunchTimer::Pool* LaunchTimer::pool_of(CUcontext context) {
  for (Pool& pool : pools_) {
    if (pool.context.load(std::memory_order_acquire) == context) return &pool;
  }
  return nullptr;
}

void LaunchTimer::want(CUcontext context) {
  for (auto& wanted : wanted_) {
    CUcontext none = nullptr;
    if (wanted.compare_exchange_strong(none, context, std::memory_order_relaxed) || none == context) return;
  }
}

void LaunchTimer::make_pairs() {
  for (auto& wanted : wanted_) {
    if (wanted.load(std::memory_order_relaxed) == nullptr) continue;
    const std::lock_guard lock(contexts_);
    const CUcontext context = wanted.load(std::memory_order_relaxed);  // it may have ended
    Pool* pool = context == nullptr || pool_of(context) != nullptr ? nullptr : vacant_pool();
    if (pool != nullptr) {
      const RelaxedCapture relaxed;
      const CurrentContext current(context);
      if (!fill(*pool, static_cast<std::uint32_t>(pool - pools_.data()) * kPairs + 1)) return;
      pool->next.store(0, std::memory_order_relaxed);
      pool->context.store(context, std::memory_order_release);
    }
    wanted.store(nullptr, std::memory_order_relaxed);
  }
}

LaunchTimer::Pool* LaunchTimer::vacant_pool() {
  const auto vacant = [](const Pool& pool) {
    if (pool.context.load(std::memory_order_relaxed) != nullptr || pool.ending != nullptr || !pool.times.empty())
      return false;
    // Those of a context that has ended come back one by one.
    return pool.pairs == nullptr || std::all_of(&pool.pairs[0], &pool.pairs[0] + kPairs, [](const Pair& pair) {
             return pair.state.load(std::memory_order_acquire) == Pair::State::free;
           });
  };
  const auto found = std::find_if(pools_.begin(), pools_.end(), vacant);
  return found == pools_.end() ? nullptr : &*found;
}

bool LaunchTimer::fill(Pool& pool, std::uint32_t first_number) {
  if (pool.pairs == nullptr) {
    auto pairs = std::make_unique<Pair[]>(kPairs);
    for (std::uint32_t i = 0; i < kPairs; ++i) pairs[i].number = first_number + i;
    const std::lock_guard lock(tickets_);
    pool.pairs = std::move(pairs);
  }
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    for (CUevent* event : {&pool.pairs[i].begin, &pool.pairs[i].end}) {
      const CUresult code = driver().cuEventCreate(event, CU_EVENT_DEFAULT);
      if (code == CUDA_SUCCESS) continue;
      *event = nullptr;
      for (std::uint32_t made = 0; made <= i; ++made) {
        for (CUevent* of : {&pool.pairs[made].begin, &pool.pairs[made].end}) {
          if (*of != nullptr) driver().cuEventDestroy_v2(*of);
          *of = nullptr;
        }
      }
      fail(code);
      return false;
    }
  }
  return true;
}

bool LaunchTimer::collect() {
  bool complete = true;
  for (Pool& pool : pools_) {
    const std::lock_guard lock(contexts_);
    if (pool.context.load(std::memory_order_relaxed) == nullptr) continue;
    complete = collect(pool) && complete;
  }
  return complete || failure();
}

bool LaunchTimer::collect(Pool& pool) {
  const RelaxedCapture relaxed;
  const CurrentContext current(pool.context.load(std::memory_order_relaxed));
  bool complete = true;
  for (std::uint32_t i = 0; i < kPairs && !failure(); ++i) {
    Pair& pair = pool.pairs[i];
    switch (pair.state.load(std::memory_order_acquire)) {
      case Pair::State::free:
      case Pair::State::measured:
        break;
      case Pair::State::taken:
        complete = false;
        break;
      case Pair::State::abandoned:
        free(pair);
        break;
      case Pair::State::recorded:
        complete = read(pool, pair) && complete;
        break;
    }
  }
  return complete;
}

// True if the pair is not out any more.
bool LaunchTimer::read(Pool& pool, Pair& pair) {
  LaunchNumber launch;
  {
    const std::lock_guard lock(tickets_);
    if (!pair.is_told) return false;
    launch = pair.launch;
  }
  CUresult code = driver().cuEventQuery(pair.end);
  if (code == CUDA_ERROR_NOT_READY) return false;
  const Pair& first = pool.first == nullptr ? pair : *pool.first;
  float took = 0;   // milliseconds
  float began = 0;  // since the first one
  if (code == CUDA_SUCCESS) code = driver().cuEventElapsedTime(&took, pair.begin, pair.end);
  if (code == CUDA_SUCCESS) code = driver().cuEventElapsedTime(&began, first.begin, pair.begin);
  if (code != CUDA_SUCCESS) {
    fail(code);
    return true;
  }
  const auto nanoseconds = [](float milliseconds) {
    return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
  };
  pool.first = &first;
  pair.state.store(Pair::State::measured, std::memory_order_relaxed);
  if (launch) {
    pool.times.push_back(
        {launch, since_start(pair.called), since_start(pair.returned), nanoseconds(began), nanoseconds(took)});
  }
  return true;
}

void LaunchTimer::free(Pair& pair) {
  const std::lock_guard lock(tickets_);
  ++pair.use;
  pair.is_told = false;
  pair.launch = {};
  pair.state.store(Pair::State::free, std::memory_order_release);
}

std::vector<policy::KernelTimed> LaunchTimer::take_times() {
  std::vector<policy::KernelTimed> all;
  const std::lock_guard lock(contexts_);
  for (Pool& pool : pools_) {
    const auto times = policy::times_by_events(pool.times);
    all.insert(all.end(), times.begin(), times.end());
    pool.times.clear();
    pool.first = nullptr;
    for (std::uint32_t i = 0; pool.pairs != nullptr && i < kPairs; ++i) {
      if (pool.pairs[i].state.load(std::memory_order_relaxed) == Pair::State::measured) free(pool.pairs[i]);
    }
  }
  return all;
}

void LaunchTimer::begin_context_end(CUcontext context) {
  const std::lock_guard lock(contexts_);
  for (auto& wanted : wanted_) {
    if (wanted.load(std::memory_order_relaxed) == context) wanted.store(nullptr, std::memory_order_relaxed);
  }
  if (Pool* pool = pool_of(context)) {
    pool->ending = context;
    pool->context.store(nullptr, std::memory_order_release);
  }
}

void LaunchTimer::end_context_end(CUcontext context, CUresult result) {
  const std::lock_guard lock(contexts_);
  for (Pool& pool : pools_) {
    if (pool.ending != context) continue;
    pool.ending = nullptr;
    if (result != CUDA_SUCCESS) {
      pool.context.store(context, std::memory_order_release);
      continue;
    }
    pool.first = nullptr;
    for (std::uint32_t i = 0; i < kPairs; ++i) {
      Pair& pair = pool.pairs[i];
      const Pair::State state = pair.state.load(std::memory_order_acquire);
      if (state == Pair::State::taken) continue;  // somebody launches in a context that is gone
      pair.begin = pair.end = nullptr;
      if (state != Pair::State::free) free(pair);
    }
  }
}

void LaunchTimer::after_fork_in_child() { launch_path().timer.store(nullptr); }

}  // namespace spillway::shim
