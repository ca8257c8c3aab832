// What telemetry switches on and off in CUPTI, and gives back to whoever wants it.
#include <utility>
#include <vector>

#include "shim/cupti_hooks.hpp"
#include "shim/log.hpp"
#include "shim/telemetry.hpp"

namespace spillway::shim {

using policy::TelemetryChanged;
using policy::TelemetryState;

namespace {

void CUPTIAPI ignore_callback(void* /*data*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId /*id*/,
                              const void* /*what*/) {}

}  // namespace

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
  Telemetry* own = the_one.load();
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

void Telemetry::flush(const Cupti& cupti) {
  const std::lock_guard lock(cupti_mutex_);
  // Waits for nothing: buffers with a kernel that still runs come later.
  if (buffers_ours_) cupti.cuptiActivityFlushAll(0);
}

void Telemetry::collect() {
  CuptiRecords records = buffers_.take();
  dropped_ += records.dropped;
  kernels_.add(records.kernels);
  if (records.pages.empty()) return;
  report_({records.pages.begin(), records.pages.end()});
}

}  // namespace spillway::shim
