// A window in which kernels are timed: opened, watched until it has had its launches, settled until the last record of
// them has come, and given back.
#include <cstdlib>
#include <utility>

#include "shim/launch_path.hpp"
#include "shim/log.hpp"
#include "shim/process.hpp"
#include "shim/telemetry.hpp"

namespace spillway::shim {

using policy::TelemetryChanged;
using policy::TelemetryState;

void Telemetry::run_window() {
  TelemetryChanged changed;
  if (open_through_cupti(changed)) {
    say(changed);
    // CUPTI's own end comes after what was registered after its start.
    if (!std::exchange(exit_watched_, true)) std::atexit(at_exit);
    wake_counters();
    watch_until_closed(*cupti_);
    settle(*cupti_);
    return;
  }
  // While events stand in for it, that it is still somebody else's is no news.
  const bool news = changed.state != TelemetryState::yielded || said_ != TelemetryState::by_events;
  if (changed.state != TelemetryState::running && news) say(changed);
  if (events_) return run_event_window();
  const std::lock_guard lock(mutex_);
  clock_.give_up(latest_);
  if (cupti_gone_) phase_ = Phase::off;
  if (phase_ == Phase::asked) phase_ = Phase::idle;
}

bool Telemetry::open_through_cupti(TelemetryChanged& changed) {
  {
    const std::lock_guard lock(mutex_);
    if (cupti_gone_) return false;
  }
  const Cupti* cupti = open_cupti();  // takes the loader's lock
  bool opened = false;
  if (cupti == nullptr) {
    changed = {TelemetryState::absent, "libcupti.so.13 or .so.12"};
  } else {
    const std::lock_guard lock(cupti_mutex_);
    cupti_ = cupti;
    opened = open(*cupti, changed);
  }
  const std::lock_guard lock(mutex_);
  cupti_gone_ = changed.state == TelemetryState::absent || changed.state == TelemetryState::refused;
  return opened;
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
  return policy::match_kernels(launches, kernels_.launches(offset));
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
    if (yielded) {
      clock_.give_up(latest_);
    } else {
      clock_.switched(dropped_ == 0 && found.complete());
    }
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

}  // namespace spillway::shim
