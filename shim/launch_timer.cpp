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
  const CUcontext context = context_for_event(meant);
  Pool* pool = context == nullptr ? nullptr : contexts_.place_of(context);
  if (pool == nullptr) return nullptr;
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
  Pair& pair = contexts_.places()[number / kPairs].pairs[number % kPairs];
  if (pair.use != ticket >> 32U) return;  // its context has ended since
  pair.is_told = true;
  pair.launch = launch;
}

void LaunchTimer::open(policy::LaunchCount window) {
  const std::uint64_t stride = std::max(kLeastStride, (window.count() + kPairs - 1) / kPairs);
  share_.store(std::numeric_limits<std::uint64_t>::max() / stride, std::memory_order_relaxed);
  for (Pool& pool : contexts_.places()) pool.next.store(0, std::memory_order_relaxed);
  if (!failure()) launch_path().events.fetch_or(kTimesWanted, std::memory_order_acq_rel);
}

void LaunchTimer::close() { launch_path().events.fetch_and(~kTimesWanted, std::memory_order_acq_rel); }

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

void LaunchTimer::make_pairs() {
  contexts_.make_wanted(is_vacant, [this](Pool& pool) { return fill(pool); });
}

bool LaunchTimer::is_vacant(const Pool& pool) {
  if (!pool.times.empty()) return false;
  // Those of a context that has ended come back one by one.
  return pool.pairs == nullptr || std::all_of(&pool.pairs[0], &pool.pairs[0] + kPairs, [](const Pair& pair) {
           return pair.state.load(std::memory_order_acquire) == Pair::State::free;
         });
}

bool LaunchTimer::fill(Pool& pool) {
  if (pool.pairs == nullptr) {
    const auto first_number = static_cast<std::uint32_t>(&pool - contexts_.places().data()) * kPairs + 1;
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
  pool.next.store(0, std::memory_order_relaxed);
  return true;
}

bool LaunchTimer::collect() {
  bool complete = true;
  for (Pool& pool : contexts_.places()) {
    const EventContexts<Pool>::Use use(contexts_);
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
  if (failure()) return true;  // given up while it was asked: the context may be gone
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
  const EventContexts<Pool>::Use use(contexts_);
  for (Pool& pool : contexts_.places()) {
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
  if (!contexts_.begin_end(context)) fail(CUDA_ERROR_TIMEOUT);
}

void LaunchTimer::end_context_end(CUcontext context, CUresult result) {
  if (!contexts_.end_end(context, result, [this](Pool& pool) { forget(pool); })) fail(CUDA_ERROR_TIMEOUT);
}

void LaunchTimer::forget(Pool& pool) {
  pool.first = nullptr;
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    Pair& pair = pool.pairs[i];
    const Pair::State state = pair.state.load(std::memory_order_acquire);
    if (state == Pair::State::taken) continue;  // somebody launches in a context that is gone
    pair.begin = pair.end = nullptr;
    if (state != Pair::State::free) free(pair);
  }
}

}  // namespace spillway::shim
