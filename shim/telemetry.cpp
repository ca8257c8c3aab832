#include "shim/telemetry.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "shim/cupti_hooks.hpp"
#include "shim/launch_path.hpp"
#include "shim/log.hpp"
#include "shim/process.hpp"
#include "shim/service_thread.hpp"

namespace spillway::shim {

using policy::Nanoseconds;
using policy::TelemetryChanged;
using policy::TelemetryState;

namespace {

// CUPTI keeps some 8,191 records between flushes; a launch takes microseconds.
constexpr std::chrono::milliseconds kFlushRecordsEvery{5};
// A queue of launches may take as long to run dry, and records come late.
constexpr std::int64_t kSettleWithin = 2'000'000'000;
constexpr std::int64_t kSettleAtExit = 200'000'000;
constexpr std::chrono::milliseconds kStopWithin{1000};
// Kernels of more launches than the clock lets into a window: the policy thread may be late.
constexpr std::size_t kMostLaunches = 8 * policy::SampleClock::kLongest;

constinit std::atomic<Telemetry*> the_telemetry{nullptr};

void CUPTIAPI ignore_callback(void* /*data*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId /*id*/,
                              const void* /*what*/) {}

// The kernels of one graph launch share its correlation: they become one record, from the first's start to the last's
// end.
std::vector<policy::SeenKernel> launches_of(const std::vector<KernelRecord>& records, std::int64_t clock_offset) {
  std::vector<policy::SeenKernel> seen;
  std::map<std::uint64_t, std::vector<const KernelRecord*>> graphs;
  const auto add = [&](policy::DeviceStreamId stream, std::uint64_t order, policy::KernelKey key, std::uint64_t start,
                       std::uint64_t end) {
    const bool known = start != 0 && end > start;
    const auto since = std::max<std::int64_t>(static_cast<std::int64_t>(start) - clock_offset, 0);
    seen.push_back({stream, order, key, Nanoseconds(known ? since : 0),
                    Nanoseconds(known ? static_cast<std::int64_t>(end - start) : 0)});
  };
  for (const KernelRecord& record : records) {
    if (record.of_graph) {
      graphs[record.correlation].push_back(&record);
    } else {
      add(record.stream, record.correlation, record.key, record.start, record.end);
    }
  }
  for (const auto& [correlation, kernels] : graphs) {
    std::uint64_t start = kernels.front()->start;
    std::uint64_t end = 0;
    for (const KernelRecord* kernel : kernels) {
      start = std::min(start, kernel->start);
      end = std::max(end, kernel->end);
    }
    add(policy::kGraphDeviceLane, correlation, policy::graph_key(kernels.size()), start, end);
  }
  return seen;
}

}  // namespace

Telemetry::Telemetry(const TelemetryPlan& plan, Report report, Wake wake)
    : plan_(plan), report_(std::move(report)), wake_(std::move(wake)), clock_(plan.percent) {}

bool Telemetry::start() {
  auto thread = start_service_thread("spillway-telem", [this] { run(); });
  if (!thread) return false;
  thread_ = std::move(*thread);
  the_telemetry.store(this);
  listen_to_cupti(step_aside);
  return true;
}

Nanoseconds Telemetry::time() const { return Nanoseconds(now() - plan_.started); }

void Telemetry::launched(const policy::WatchedLaunch& launch) {
  const std::lock_guard lock(mutex_);
  if (!watching()) {
    before_ = launch;
  } else if (launches_.size() < kMostLaunches) {
    launches_.push_back(launch);
  }
}

void Telemetry::tick(policy::LaunchNumber latest, policy::LaunchCount iteration, Nanoseconds drained, Use use) {
  const std::lock_guard lock(mutex_);
  latest_ = latest;
  drained_ = drained;
  use_ = use;
  if (phase_ != Phase::idle && (phase_ != Phase::open || close_)) return;
  if (phase_ == Phase::idle && use == Use::none) return;
  using Wish = policy::SampleClock::Wish;
  const Wish wish = clock_.ask(latest, iteration);
  if (wish == Wish::nothing) return;
  if (wish == Wish::open) phase_ = Phase::asked;
  if (wish == Wish::close) close_ = true;
  changed_.notify_all();
}

Telemetry::Work Telemetry::wait_for_work() {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::off) phase_ = phase_ == Phase::asked ? Phase::asked : Phase::idle;
  const auto begins = [this] {
    return pages_wanted_ && !pages_on_.load() && phase_ != Phase::off && now() >= pages_again_at_;
  };
  const auto ends = [this] { return pages_lost_ || (!pages_wanted_ && pages_on_.load()); };
  const auto some = [&] { return stopping_ || phase_ == Phase::asked || begins() || ends(); };
  if (pages_on_.load()) {
    changed_.wait_for(lock, kFlushRecordsEvery, some);
  } else {
    changed_.wait(lock, some);
  }
  if (stopping_) return Work::stop;
  if (ends()) return Work::end_pages;
  if (phase_ == Phase::asked) return Work::window;
  return begins() ? Work::begin_pages : Work::tell_pages;
}

void Telemetry::run() {
  for (Work work = wait_for_work(); work != Work::stop; work = wait_for_work()) {
    try {
      switch (work) {
        case Work::window:
          run_window();
          break;
        case Work::begin_pages:
          begin_pages();
          break;
        case Work::end_pages:
          end_pages();
          break;
        case Work::tell_pages:
          tell_pages();
          break;
        case Work::stop:
          break;
      }
    } catch (...) {
      // Without memory for its books there is no telemetry; the program goes on.
      const std::lock_guard lock(mutex_);
      phase_ = Phase::off;
      pages_wanted_ = false;
    }
  }
  try {
    end_pages();
  } catch (...) {
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void Telemetry::run_window() {
  const Cupti* cupti = open_cupti();  // takes the loader's lock
  TelemetryChanged changed;
  bool opened = false;
  if (cupti == nullptr) {
    changed = {TelemetryState::absent, "libcupti.so.13 or .so.12"};
  } else {
    const std::lock_guard lock(cupti_mutex_);
    cupti_ = cupti;
    opened = open(*cupti, changed);
  }
  say(changed);
  if (!opened) {
    const std::lock_guard lock(mutex_);
    clock_.give_up(latest_);
    if (changed.state != TelemetryState::yielded) phase_ = Phase::off;
    if (phase_ == Phase::asked) phase_ = Phase::idle;
    return;
  }
  // CUPTI's own end comes after what was registered after its start.
  if (!std::exchange(exit_watched_, true)) std::atexit(at_exit);
  wake_counters();
  watch_until_closed(*cupti);
  settle(*cupti);
}

bool Telemetry::anybody_else(const Cupti& cupti, TelemetryChanged& changed) {
  if (program_uses_cupti()) {
    changed = {TelemetryState::yielded, "the program's"};
    return true;
  }
  if (program_has_subscriber()) return false;  // it has had its activities, and has switched them off
  CUpti_SubscriberHandle subscriber = nullptr;
  const CUptiResult result = cupti.cuptiSubscribe(&subscriber, ignore_callback, nullptr);
  if (result == CUPTI_SUCCESS) {
    cupti.cuptiUnsubscribe(subscriber);
    return false;
  }
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    changed = {TelemetryState::yielded, "a tool's"};
  } else {
    changed = {TelemetryState::refused, cupti_error(cupti, result)};
  }
  return true;
}

bool Telemetry::open(const Cupti& cupti, TelemetryChanged& changed) {
  Use use = Use::none;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    yielded_ = close_ = false;
    use = use_;
  }
  if (anybody_else(cupti, changed)) return false;
  std::uint64_t timestamp = 0;
  const std::int64_t before = now();
  CUptiResult result = cupti.cuptiGetTimestamp(&timestamp);
  clock_offset_ = static_cast<std::int64_t>(timestamp) - (before + now()) / 2 + plan_.started;
  if (result == CUPTI_SUCCESS) result = buffers_.take_over(cupti);
  if (result == CUPTI_SUCCESS) {
    buffers_ours_ = true;
    {
      const std::lock_guard lock(mutex_);
      launches_.clear();
      if (const auto earlier = std::exchange(before_, std::nullopt)) launches_.push_back(*earlier);
      watching_.store(true);
    }
    result = switch_on(cupti, use);
  }
  if (result != CUPTI_SUCCESS) {
    watching_.store(false);
    give_back(cupti);
    changed = {TelemetryState::refused, cupti_error(cupti, result)};
    return false;
  }
  const std::lock_guard lock(mutex_);
  phase_ = Phase::open;
  changed = {TelemetryState::running, cupti.path + ", version " + cupti.version};
  return true;
}

CUptiResult Telemetry::switch_on(const Cupti& cupti, Use use) {
  marks_ = {};
  marks_.before_on = time();
  const CUptiResult result = cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  marks_.on = time();
  if (result != CUPTI_SUCCESS) return result;
  kinds_on_ = true;
  if (use != Use::times_and_pages) return CUPTI_SUCCESS;
  const CUptiResult configured = counters_on_ ? CUPTI_SUCCESS : switch_counters_on(cupti);
  if (!counters_on_) SPILLWAY_LOG(debug, "CUPTI does not count pages here ({})", cupti_error(cupti, configured));
  if (counters_on_) SPILLWAY_LOG_ONCE(debug, "page traffic is counted through CUPTI");
  return CUPTI_SUCCESS;
}

CUptiResult Telemetry::switch_counters_on(const Cupti& cupti) {
  static constexpr CUpti_ActivityUnifiedMemoryCounterKind kCounters[] = {
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP};
  std::vector<CUpti_ActivityUnifiedMemoryCounterConfig> configs;
  for (std::uint32_t device = 0; device < plan_.devices; ++device) {
    for (const auto kind : kCounters) {
      configs.push_back(
          {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE, kind, device, std::uint32_t{1}});
    }
  }
  const CUptiResult configured =
      cupti.cuptiActivityConfigureUnifiedMemoryCounter(configs.data(), static_cast<std::uint32_t>(configs.size()));
  counters_on_ = configured == CUPTI_SUCCESS &&
                 cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) == CUPTI_SUCCESS;
  return configured;
}

void Telemetry::wake_counters() {
  {
    const std::lock_guard lock(cupti_mutex_);
    if (!counters_on_ || std::exchange(counters_awake_, true)) return;
  }
  wake_();
}

// What the pages are watched by stays on.
void Telemetry::switch_off(const Cupti& cupti) {
  if (kinds_on_) {
    marks_.before_off = time();
    cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks_.off = time();
    kinds_on_ = false;
  }
  if (counters_on_ && !pages_on_.load()) {
    cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
    counters_on_ = false;
  }
}

void Telemetry::give_back(const Cupti& cupti) {
  switch_off(cupti);
  if (pages_on_.load() || !std::exchange(buffers_ours_, false)) return;
  cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  buffers_.give_back(cupti);
}

void Telemetry::step_aside() {
  Telemetry* own = the_telemetry.load();
  if (own == nullptr) return;
  try {
    const std::lock_guard lock(own->cupti_mutex_);
    if (own->cupti_ == nullptr || (!own->kinds_on_ && !own->buffers_ours_)) return;
    const bool pages = own->pages_on_.exchange(false);
    own->give_back(*own->cupti_);
    own->counters_awake_ = false;  // it may end CUPTI, which begins anew then
    const std::lock_guard inner(own->mutex_);
    own->yielded_ = true;
    own->pages_lost_ = own->pages_lost_ || pages;
    own->changed_.notify_all();
  } catch (...) {
  }
}

void Telemetry::watch_until_closed(const Cupti& cupti) {
  for (bool open = true; open;) {
    {
      std::unique_lock lock(mutex_);
      open = !changed_.wait_for(lock, kFlushRecordsEvery, [this] { return stopping_ || yielded_ || close_; });
      if (!open) phase_ = Phase::settling;
    }
    flush(cupti);
    collect();
  }
  const std::lock_guard lock(cupti_mutex_);
  switch_off(cupti);
}

void Telemetry::flush(const Cupti& cupti) {
  const std::lock_guard lock(cupti_mutex_);
  // Waits for nothing: buffers with a kernel that still runs come later.
  if (buffers_ours_) cupti.cuptiActivityFlushAll(0);
}

void Telemetry::collect() {
  CuptiRecords records = buffers_.take();
  dropped_ += records.dropped;
  kernels_.insert(kernels_.end(), records.kernels.begin(), records.kernels.end());
  if (records.pages.empty()) return;
  report_({records.pages.begin(), records.pages.end()});
}

policy::KernelMatch Telemetry::match() {
  std::vector<policy::WatchedLaunch> launches;
  policy::WatchMarks marks;
  std::int64_t offset = 0;
  {
    const std::lock_guard lock(cupti_mutex_);
    marks = marks_;
    offset = clock_offset_;
  }
  {
    const std::lock_guard lock(mutex_);
    launches = launches_;
  }
  policy::judge_launches(launches, marks);
  return policy::match_kernels(launches, launches_of(kernels_, offset));
}

void Telemetry::settle(const Cupti& cupti) {
  const std::int64_t began = now();
  policy::KernelMatch found;
  for (bool last = false;;) {
    bool told = false;
    bool yielded = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kFlushRecordsEvery, [this] { return false; });
      told = drained_ > marks_.off;
      yielded = yielded_;
      // After giving back nothing more will come.
      last = now() - began > (stopping_ ? kSettleAtExit : kSettleWithin) || (yielded && told);
    }
    if (last) {
      const std::lock_guard lock(cupti_mutex_);
      give_back(cupti);
    } else {
      flush(cupti);
    }
    collect();
    if (!told && !last) continue;
    found = match();
    if (last || found.complete()) break;
  }
  watching_.store(false);
  bool yielded = false;
  {
    const std::lock_guard lock(cupti_mutex_);
    give_back(cupti);
  }
  {
    const std::lock_guard lock(mutex_);
    yielded = yielded_;
    if (yielded) clock_.give_up(latest_);
  }
  kernels_.clear();
  if (const std::size_t dropped = std::exchange(dropped_, 0); dropped > 0) {
    say({TelemetryState::window_lost, std::to_string(dropped) + " records lost by CUPTI"});
  } else {
    if (!found.complete()) {
      say({TelemetryState::window_lost, std::to_string(found.lost) + " records of kernels, " +
                                            std::to_string(found.certain - found.certain_timed) + " launches without"});
    }
    if (!found.times.empty()) report_({found.times.begin(), found.times.end()});
  }
  if (yielded) say({TelemetryState::yielded, "the program's"});
}

void Telemetry::say(const TelemetryChanged& changed) {
  const bool lost = changed.state == TelemetryState::window_lost;
  if (!lost && said_ == changed.state) return;
  if (!lost) said_ = changed.state;
  switch (changed.state) {
    case TelemetryState::running:
      SPILLWAY_LOG_ONCE(debug, "kernel times are sampled through {}", changed.detail);
      break;
    case TelemetryState::absent:
      SPILLWAY_LOG(info, "{} was not found: there will be no kernel times (telemetry.cupti)", changed.detail);
      break;
    case TelemetryState::refused:
      SPILLWAY_LOG(info, "CUPTI refused ({}): there will be no kernel times (telemetry.cupti)", changed.detail);
      break;
    case TelemetryState::yielded:
      SPILLWAY_LOG(info, "CUPTI is {} now: no kernel times until that ends (telemetry.cupti)", changed.detail);
      break;
    case TelemetryState::window_lost:
      SPILLWAY_LOG_ONCE(debug, "a window of kernel times was thrown away: {}", changed.detail);
      break;
    case TelemetryState::pages_watched:
    case TelemetryState::pages_lost:
      break;  // reported, and not said
  }
  report_({changed});
}

void Telemetry::stop() {
  if (!thread_.joinable()) return;
  listen_to_cupti(nullptr);
  bool done = false;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    done = changed_.wait_for(lock, kStopWithin, [this] { return done_; });
  }
  watching_.store(false);
  // One that hangs in CUPTI is left behind: its memory stays.
  done ? thread_.join() : thread_.detach();
}

void Telemetry::at_exit() {
  if (other_process()) return;
  if (Telemetry* own = the_telemetry.load()) own->stop();
}

void Telemetry::after_fork_in_child() {
  the_telemetry.store(nullptr);
  listen_to_cupti(nullptr);
}

}  // namespace spillway::shim
