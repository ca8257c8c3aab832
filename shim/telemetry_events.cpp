// A window in which some launches are timed by the driver's events, as CUPTI is not to be had.
#include <utility>

#include "shim/driver_error.hpp"
#include "shim/launch_timer.hpp"
#include "shim/telemetry.hpp"
#include "shim/ticks.hpp"

namespace spillway::shim {

using policy::TelemetryState;

void Telemetry::run_event_window() {
  policy::LaunchCount length;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    close_ = false;
    phase_ = Phase::open;
    length = clock_.length();
  }
  LaunchTimer& timer = launch_timer();
  timer.open(length);
  say({TelemetryState::by_events, {}});
  while (!wait_for_close() && !timer.failure()) {
    timer.make_pairs();
    timer.collect();  // before its context may end
    keep_pages();
  }
  timer.close();
  settle_events();
  std::vector<policy::KernelTimed> times = timer.take_times();
  if (!times.empty()) report_({times.begin(), times.end()});
  const auto refused = timer.failure();
  if (!refused) return;
  say({TelemetryState::events_refused, error_name({static_cast<std::int32_t>(*refused)})});
  events_ = false;
  const std::lock_guard lock(mutex_);
  clock_.give_up(latest_);
  if (cupti_gone_) phase_ = Phase::off;
}

bool Telemetry::wait_for_close() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kFlushRecordsEvery, [this] { return stopping_ || close_; });
}

// What is still out at the end is read in the next window.
void Telemetry::settle_events() {
  const std::int64_t began = now();
  for (bool settled = false; !settled;) {
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      phase_ = Phase::settling;
      changed_.wait_for(lock, kFlushRecordsEvery, [this] { return false; });
      stopping = stopping_;
    }
    keep_pages();
    settled = launch_timer().collect() || now() - began > (stopping ? kSettleAtExit : kSettleWithin);
  }
}

// They may have been watched before CUPTI refused kernels.
void Telemetry::keep_pages() {
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    lost = pages_lost_;
  }
  lost ? end_pages() : tell_pages();
}

}  // namespace spillway::shim
