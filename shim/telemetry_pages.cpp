// Page traffic between the windows in which kernels are timed: the unified-memory counters stay on while policy wants
// to hear of pages, and are given back when it does not, or when somebody else takes CUPTI.
#include <utility>

#include "shim/launch_path.hpp"
#include "shim/process.hpp"
#include "shim/telemetry.hpp"

namespace spillway::shim {

using policy::TelemetryChanged;
using policy::TelemetryState;

namespace {

// Somebody else's CUPTI is asked for again after so long.
constexpr std::int64_t kTryAgainAfter = 500'000'000;

}  // namespace

void Telemetry::watch_pages(bool wanted) {
  const std::lock_guard lock(mutex_);
  pages_wanted_ = wanted;
  if (wanted != pages_on_.load()) changed_.notify_all();
}

void Telemetry::begin_pages() {
  const Cupti* cupti = open_cupti();  // takes the loader's lock
  bool begun = false;
  if (cupti != nullptr) {
    const std::lock_guard lock(cupti_mutex_);
    cupti_ = cupti;
    begun = begin_pages(*cupti);
  }
  if (!begun) {
    const std::lock_guard lock(mutex_);
    pages_again_at_ = now() + kTryAgainAfter;
    return;
  }
  if (!std::exchange(exit_watched_, true)) std::atexit(at_exit);
  wake_counters();
  report_({TelemetryChanged{TelemetryState::pages_watched, {}}});
}

bool Telemetry::begin_pages(const Cupti& cupti) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    yielded_ = false;
  }
  TelemetryChanged changed;
  if (anybody_else(cupti, changed)) return false;
  if (buffers_.take_over(cupti) != CUPTI_SUCCESS) return false;
  buffers_ours_ = true;
  switch_counters_on(cupti);
  pages_on_.store(counters_on_);
  if (!counters_on_) give_back(cupti);
  return counters_on_;
}

void Telemetry::end_pages() {
  bool lost = false;
  {
    const std::lock_guard lock(cupti_mutex_);
    if (pages_on_.exchange(false)) {
      lost = true;
      give_back(*cupti_);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    lost = std::exchange(pages_lost_, false) || lost;
    pages_again_at_ = now() + kTryAgainAfter;
  }
  collect();
  kernels_.clear();
  if (lost) report_({TelemetryChanged{TelemetryState::pages_lost, {}}});
}

void Telemetry::tell_pages() {
  if (!pages_on_.load()) return;
  flush(*cupti_);
  collect();
  kernels_.clear();
  dropped_ = 0;
}

}  // namespace spillway::shim
