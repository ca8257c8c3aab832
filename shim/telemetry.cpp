#include "shim/telemetry.hpp"

#include <cstdlib>
#include <utility>

#include "shim/cupti_hooks.hpp"
#include "shim/launch_path.hpp"
#include "shim/launch_timer.hpp"
#include "shim/log.hpp"
#include "shim/process.hpp"
#include "shim/service_thread.hpp"

namespace spillway::shim {

using policy::Nanoseconds;
using policy::TelemetryChanged;
using policy::TelemetryState;

namespace {

constexpr std::chrono::milliseconds kStopWithin{1000};
// Kernels of more launches than the clock lets into a window: the policy thread may be late.
constexpr std::size_t kMostLaunches = 2 * policy::SampleClock::kLongestGrown;

}  // namespace

constinit std::atomic<Telemetry*> Telemetry::the_one{nullptr};

Telemetry::Telemetry(const TelemetryPlan& plan, Report report, Wake wake)
    : plan_(plan),
      report_(std::move(report)),
      wake_(std::move(wake)),
      clock_(plan.percent),
      cupti_gone_(!plan.cupti),
      events_(plan.events) {}

bool Telemetry::start() {
  launch_timer().start_of_time(plan_.started);
  auto thread = start_service_thread("spillway-telem", [this] { run(); });
  if (!thread) return false;
  thread_ = std::move(*thread);
  the_one.store(this);
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
  const Wish wish = clock_.ask(latest, iteration, drained);
  if (wish == Wish::nothing) return;
  if (wish == Wish::open) phase_ = Phase::asked;
  if (wish == Wish::close) close_ = true;
  changed_.notify_all();
}

Telemetry::Work Telemetry::wait_for_work() {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::off) phase_ = phase_ == Phase::asked ? Phase::asked : Phase::idle;
  const auto begins = [this] {
    return pages_wanted_ && !pages_on_.load() && !cupti_gone_ && phase_ != Phase::off && now() >= pages_again_at_;
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
      launch_timer().close();
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

void Telemetry::say(const TelemetryChanged& changed) {
  const bool lost = changed.state == TelemetryState::window_lost;
  if (!lost && said_ == changed.state) return;
  if (!lost) said_ = changed.state;
  const char* const instead = events_ ? "kernel times come from the driver's events" : "there will be no kernel times";
  switch (changed.state) {
    case TelemetryState::running:
      SPILLWAY_LOG_ONCE(debug, "kernel times are sampled through {}", changed.detail);
      break;
    case TelemetryState::absent:
      SPILLWAY_LOG(info, "{} was not found: {} (telemetry.cupti)", changed.detail, instead);
      break;
    case TelemetryState::refused:
      SPILLWAY_LOG(info, "CUPTI refused ({}): {} (telemetry.cupti)", changed.detail, instead);
      break;
    case TelemetryState::yielded:
      SPILLWAY_LOG(info, "CUPTI is {} now: {} until that ends (telemetry.cupti)", changed.detail,
                   events_ ? "kernel times come from the driver's events" : "no kernel times");
      break;
    case TelemetryState::window_lost:
      SPILLWAY_LOG_ONCE(debug, "a window of kernel times was thrown away: {}", changed.detail);
      break;
    case TelemetryState::by_events:
      SPILLWAY_LOG_ONCE(debug, "kernel times are sampled by the driver's events");
      break;
    case TelemetryState::events_refused:
      SPILLWAY_LOG(info, "the driver refused an event ({}): no kernel times without CUPTI (telemetry.events)",
                   changed.detail);
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
  launch_timer().close();
  // One that hangs in CUPTI is left behind: its memory stays.
  done ? thread_.join() : thread_.detach();
}

void Telemetry::at_exit() {
  if (other_process()) return;
  if (Telemetry* own = the_one.load()) own->stop();
}

void Telemetry::after_fork_in_child() {
  the_one.store(nullptr);
  listen_to_cupti(nullptr);
}

}  // namespace spillway::shim
