// The session's place in the process: its start, its timer thread, fork and exit.
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "shim/advice.hpp"
#include "shim/cost_source.hpp"
#include "shim/deferred_frees.hpp"
#include "shim/driver.hpp"
#include "shim/driver_error.hpp"
#include "shim/log.hpp"
#include "shim/process.hpp"
#include "shim/program.hpp"
#include "shim/service_thread.hpp"
#include "shim/session.hpp"
#include "shim/settings_source.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {

using policy::Nanoseconds;

namespace {

std::atomic<Session*> session{nullptr};
std::once_flag started;

// Rings hold some 10,000 launches a thread: a millisecond of the fastest launching is a tenth of one.
constexpr std::chrono::milliseconds kBusyTick{1};
constexpr std::chrono::milliseconds kIdleTick{20};
constexpr std::chrono::milliseconds kFlushEvery{250};
constexpr std::chrono::milliseconds kExitWait{1000};

}  // namespace

struct SessionProcess {
  static void start() {
    RunSettings run = read_settings();
    if (run.settings.mode == policy::ModeName::off && run.settings.trace_path.empty()) return;
    int count = 0;
    if (driver().cuDeviceGetCount == nullptr || driver().cuDeviceGetCount(&count) != CUDA_SUCCESS || count <= 0) return;
    run.costs = probed_costs(static_cast<std::uint32_t>(count));
    launch_path().use_counter = counter_is_even();
    auto* made = new Session(std::move(run), static_cast<std::uint32_t>(count));
    LaunchPath& path = launch_path();
    if (made->acts_before_launches_) path.observer.store(made, std::memory_order_release);
    path.graphs.store(made, std::memory_order_release);
    set_process_listener({before_fork, after_fork_parent, after_fork_child, before_exit, at_exit});
    watch_process();
    watch_exit();
    session.store(made, std::memory_order_release);
    path.recording.store(true, std::memory_order_release);
  }
  // The lock is held across the fork, so that the child's books are whole when it forgets them.
  static void before_fork() {
    if (Session* own = session.load()) own->mutex_.lock();
  }
  static void after_fork_parent() {
    if (Session* own = session.load()) own->mutex_.unlock();
  }
  static void after_fork_child() {
    Session* own = session.exchange(nullptr);
    if (own == nullptr) return;
    own->mutex_.unlock();
    own->trace_.after_fork_in_child();
    own->page_.after_fork_in_child();
    Telemetry::after_fork_in_child();
    launch_path().observer.store(nullptr);
    launch_path().graphs.store(nullptr);
  }
  static void before_exit() {
    if (Session::get() != nullptr) deferred_frees().stop();
    if (Session* own = Session::get()) own->leave_driver_alone();
  }
  static void at_exit() {
    if (Session* own = session.exchange(nullptr)) own->finish("exit");
  }
};

Session* Session::get() { return session.load(std::memory_order_acquire); }

void Session::start() {
  // A failure of ours leaves the program as it would be without us. Nothing may be thrown through call_once: it is the
  // C library's, which ends the program when an exception of our static C++ run-time comes by.
  std::call_once(started, [] {
    try {
      SessionProcess::start();
    } catch (...) {
      SPILLWAY_LOG(warning, "could not start; the program runs without spilling");
    }
  });
}

void Session::run_policy_thread() {
  auto last_flush = std::chrono::steady_clock::now();
  publish({});
  std::uint64_t decided = 0;
  std::uint64_t known = 0;  // events
  bool said_refused = false;
  int alone = 0;
  std::chrono::milliseconds tick = kBusyTick;
  while (!stopping_.load(std::memory_order_acquire)) {
    std::this_thread::sleep_for(tick);
    Work work;
    bool pages_wanted = false;
    const auto moment = std::chrono::steady_clock::now();
    const bool flushes = moment - last_flush >= kFlushEvery;
    {
      const std::unique_lock lock(mutex_);
      const Nanoseconds began(now() - started_);
      drain(work);
      if (telemetry_) telemetry_->tick(engine_.launches(), engine_.iteration(), began, telemetry_use());
    }
    ProgressMarks::Progress progress;
    migration_.watch("a query of events", [&progress] { progress = progress_marks().look(); });
    // The driver may have kept it for long, and the process ended meanwhile.
    if (stopping_.load(std::memory_order_acquire)) return;
    {
      const std::unique_lock lock(mutex_);
      tell_marks(progress, work);
      pages_wanted = engine_.wants_page_hits();
      tick = events_ != known || progress.out ? kBusyTick : std::min(tick * 2, kIdleTick);
      if (flushes) {
        // Silence needs no clock: a waiting program writes no trace.
        if (events_ != decided) decide(policy::TimePassed{}, work);
        tell_calls(work);
        decided = events_;
        trace_.flush();
        last_flush = moment;
      }
      known = events_;
    }
    if (telemetry_) telemetry_->watch_pages(pages_wanted);
    if (progress.refused != CUDA_SUCCESS && !std::exchange(said_refused, true)) {
      SPILLWAY_LOG(warning,
                   "the driver's events do not tell how far the device is ({}): nothing is streamed ahead of its use",
                   error_name({static_cast<std::int32_t>(progress.refused)}));
    }
    carry_out(work);
    if (stopping_.load(std::memory_order_acquire)) return;
    if (flushes) publish({});
    migration_.look_for_stuck_calls();
    // Twice, as threads come and go between the looks of one.
    if (flushes) alone = only_own_threads_left() ? alone + 1 : 0;
    if (alone == 2) end_process();
  }
}

void Session::end_process() {
  // As the C library ends it on the last thread: exit handlers run here, with signals and hooks as in any thread.
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  this_thread = ThreadState{};
  std::exit(0);
}

void Session::start_telemetry(std::uint32_t device_count) {
  const bool cupti = settings_.cupti == policy::Switch::automatic;
  const bool events = settings_.events == policy::Switch::automatic;
  const bool wanted = (cupti || events) && settings_.telemetry_sample > 0;
  // Somebody must have a use for it.
  if (!wanted || (settings_.mode != policy::ModeName::adaptive && settings_.trace_path.empty())) return;
  telemetry_ = std::make_unique<Telemetry>(
      TelemetryPlan{settings_.telemetry_sample, started_, device_count, cupti, events},
      [this](std::vector<policy::EventBody> reported) { telemetry_reports(std::move(reported)); },
      [this] { make_managed_memory(); });
  if (!telemetry_->start()) telemetry_.reset();
}

Telemetry::Use Session::telemetry_use() const {
  const auto spills = [this](const auto& entry) { return engine_.totals({entry.first}).managed > policy::Bytes(); };
  // A trace keeps kernel times for later; decisions are only about memory that may move.
  if (std::any_of(devices_.begin(), devices_.end(), spills)) return Telemetry::Use::times_and_pages;
  return settings_.trace_path.empty() ? Telemetry::Use::none : Telemetry::Use::times;
}

void Session::make_managed_memory() {
  policy::DeviceIndex device;
  {
    const std::unique_lock lock(mutex_);
    if (devices_.empty()) return;
    device = {devices_.begin()->first};
    for (const auto& [index, unused] : devices_) {
      if (engine_.totals({index}).managed > policy::Bytes()) device = {index};
    }
  }
  migration_.with_context(device, "the waking of page counters", [] {
    constexpr std::size_t kLeast = 65536;  // never touched, so that it takes no memory
    const RelaxedCapture relaxed;
    CUdeviceptr made = 0;
    if (driver().cuMemAllocManaged(&made, kLeast, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS) driver().cuMemFree_v2(made);
  });
}

void Session::telemetry_reports(std::vector<policy::EventBody> events) {
  // In pieces, so that allocations do not wait for a whole window's.
  constexpr std::size_t kAtOnce = 256;
  for (std::size_t first = 0; first < events.size(); first += kAtOnce) {
    Work work;
    {
      const std::unique_lock lock(mutex_);
      const std::size_t end = std::min(first + kAtOnce, events.size());
      for (std::size_t index = first; index < end; ++index) decide(std::move(events[index]), work);
    }
    carry_out(work);
  }
}

// The program's own calls are served on, as it may free memory in destructors; nothing moves any more.
void Session::leave_driver_alone() {
  if (telemetry_) telemetry_->stop();
  stopping_.store(true, std::memory_order_release);
  // Itself, where it ends the process.
  if (policy_thread_.joinable() && policy_thread_.get_id() != std::this_thread::get_id()) {
    std::unique_lock lock(mutex_);
    const bool ended = policy_thread_ends_.wait_for(lock, kExitWait, [this] { return policy_thread_ended_; });
    lock.unlock();
    // One that hangs in the driver is left behind.
    ended ? policy_thread_.join() : policy_thread_.detach();
  }
  progress_marks().stop();
  migration_.stop(kExitWait);
}

void Session::finish(const char* reason) {
  leave_driver_alone();
  launch_path().recording.store(false, std::memory_order_release);
  Work work;
  policy::trace::TraceEnd end;
  {
    const std::unique_lock lock(mutex_);
    drain(work);
    tell_calls(work);
    trace_.flush();
    end.reason = reason;
    end.launches = engine_.launches().value;
    end.decisions = decided_;
    end.dropped_events = dropped_;
    end.ignored_events = engine_.ignored_events();
    for (const auto& [index, device] : devices_) end.devices.push_back({{index}, engine_.totals({index})});
  }
  trace_.close(std::move(end));
  publish(reason);
  log_left_out();
}

policy::trace::TraceHeader Session::header() const {
  policy::trace::TraceHeader header = describe_program(settings_, policy_file_, rules_seen_);
  for (const auto& [index, device] : devices_) header.devices.push_back(device);
  if (costs_) header.cost_table = policy::write_costs(*costs_);
  return header;
}

void Session::announce() const {
  SPILLWAY_LOG_ONCE(debug, "driver found; prefetch and advice take {}", prefetch_variant());
  if (host_proc_error_ != 0 && !all_plain_) {
    const bool no_descriptor = host_proc_error_ == EMFILE || host_proc_error_ == ENFILE;
    SPILLWAY_LOG(warning,
                 "/proc/meminfo cannot be read ({}), so the host memory that may be used is {}, by what is free, page "
                 "cache left out; {}, or set memory.host_budget (--host-budget)",
                 std::strerror(host_proc_error_), policy::format_bytes(host_total_),
                 no_descriptor ? "raise the limit on open files (ulimit -n)" : "mount /proc");
  }
  for (const auto& [index, device] : devices_) {
    if (settings_.mode == policy::ModeName::off) {
      SPILLWAY_LOG_ONCE(info, "mode off: nothing spills or moves{}", trace_.on() ? "; calls are traced" : "");
    } else if (!device.can_spill) {
      SPILLWAY_LOG(
          warning,
          "device {} ({}) has no concurrent managed access: spilling is off, the program runs as without Spillway",
          index, device.name);
    }
  }
}

// Once its context is there: only then is known what is free, so what the budget is.
void Session::announce(policy::DeviceIndex index) {
  policy::DeviceSeen device;
  policy::Bytes budget;
  {
    const std::unique_lock lock(mutex_);
    device = devices_.at(index.value);
    budget = engine_.totals(index).budget;
  }
  if (settings_.mode == policy::ModeName::off || !device.can_spill) return;
  std::string why;
  if (!settings_.device_budget) {
    why = " (what is free, less a reserve)";
  } else if (const policy::Bytes wanted = settings_.device_budget->of(device.total); wanted > budget) {
    why = " (" + policy::format_bytes(wanted) + " asked for, no more is free)";
  }
  std::string host = policy::format_bytes(host_total_);
  if (all_plain_) {
    host = "none (memory.backing keeps all on the device)";
  } else if (const policy::Bytes wanted = settings_.host_budget.of(host_total_); wanted > host_total_) {
    host += " (" + policy::format_bytes(wanted) + " asked for, no more is free)";
  }
  const bool virtual_memory = settings_.report == policy::ReportMode::virtual_memory;
  SPILLWAY_LOG(info, "device {} ({}): budget {} of {}{}, host {}; the program sees {} memory (memory.report)",
               index.value, device.name, policy::format_bytes(budget), policy::format_bytes(device.total), why, host,
               virtual_memory ? "virtual" : "real");
}

}  // namespace spillway::shim
