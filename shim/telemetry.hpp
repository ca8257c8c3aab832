// Kernel times and page traffic, sampled through CUPTI while nobody else wants it; else kernel times alone, by the
// driver's events.
//
// Now and then a window opens (policy/sampling.hpp): kernel activity and unified-memory counters are switched on, the
// launches that policy hears of are kept beside, and when the window is over both are laid side by side
// (policy/kernel_matching.hpp). Outside of a window CUPTI is as the program left it. Nothing is done on the launch
// path.
//
// Where CUPTI is not to be had when a window is due, some launches of that window are timed by events
// (launch_timer.hpp). CUPTI is asked for again at the next one, unless it is not there, or was refused.
//
// While policy has a use for it, the unified-memory counters stay on between windows and what they tell is reported
// every few milliseconds: the uses of probes (policy/heat.hpp).
//
// Measured (docs/driver_facts.md): CUPTI's counters stay silent until managed memory or a context is made after CUPTI's
// first call, and switching silent counters off takes 2 s. So they are switched on only where there is managed memory,
// and `wake` makes a little more.
//
// A program that uses CUPTI itself is heard of at the door (cupti_hooks.hpp): the window ends, and all is given back,
// before its call goes on. Any failure ends telemetry with one message and one note, and changes nothing else.
//
// All calls of CUPTI are made by a thread of its own, but for giving back. Locks: `cupti_mutex_` around CUPTI's calls,
// then `mutex_`; the session's lock may be held around `mutex_`, and never inside either. `report` is called on that
// thread with no lock held.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "policy/event.hpp"
#include "policy/kernel_matching.hpp"
#include "policy/sampling.hpp"
#include "shim/cupti_records.hpp"
#include "shim/window_kernels.hpp"

namespace spillway::shim {

struct TelemetryPlan {
  double percent = 0;        // telemetry.sample
  std::int64_t started = 0;  // `now()` at which the session's time is zero
  std::uint32_t devices = 0;
  bool cupti = true;   // telemetry.cupti
  bool events = true;  // telemetry.events
};

class Telemetry {
 public:
  using Report = std::function<void(std::vector<policy::EventBody>)>;
  using Wake = std::function<void()>;

  // One a process, never destroyed once `start` has been called.
  // `wake` is called as `report` is.
  Telemetry(const TelemetryPlan& plan, Report report, Wake wake);
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // False without a thread for it.
  bool start();
  // Cheap; true while launches are to be told. With the session's lock.
  [[nodiscard]] bool watching() const { return watching_.load(std::memory_order_relaxed); }
  // Where launches are told before their call is made: all of them, as the call may be made when a window is open.
  void launched(const policy::WatchedLaunch& launch);
  // After each turn of the policy thread, with the session's lock: what was recorded before `drained` has been told. No
  // window opens while nobody has a use for it. Pages: there is managed memory whose traffic is worth counting.
  enum class Use : std::uint8_t { none, times, times_and_pages };
  void tick(policy::LaunchNumber latest, policy::LaunchCount iteration, policy::Nanoseconds drained, Use use);
  // After each turn of the policy thread: whether pages shall be watched between windows. Without a lock.
  void watch_pages(bool wanted);
  // Ends a window and the thread, within a second or it is left behind. At exit, before CUPTI's own end.
  void stop();
  // In the child of a fork: there is no telemetry.
  static void after_fork_in_child();

 private:
  // CUPTI keeps some 8,191 records between flushes; a launch takes microseconds.
  static constexpr std::chrono::milliseconds kFlushRecordsEvery{5};
  // Nanoseconds. A queue of launches may take as long to run dry, and records come late.
  static constexpr std::int64_t kSettleWithin = 2'000'000'000;
  static constexpr std::int64_t kSettleAtExit = 200'000'000;
  static constinit std::atomic<Telemetry*> the_one;

  enum class Phase : std::uint8_t { idle, asked, open, settling, off };

  enum class Work : std::uint8_t { stop, window, begin_pages, end_pages, tell_pages };
  void run();
  Work wait_for_work();
  void run_window();
  void run_event_window();
  void begin_pages();
  // With `cupti_mutex_`; false if they cannot be watched now.
  bool begin_pages(const Cupti& cupti);
  void end_pages();
  void tell_pages();
  CUptiResult switch_counters_on(const Cupti& cupti);
  // False if there is no window to be had, and `changed` says why.
  bool open_through_cupti(policy::TelemetryChanged& changed);
  bool open(const Cupti& cupti, policy::TelemetryChanged& changed);  // with `cupti_mutex_`
  bool anybody_else(const Cupti& cupti, policy::TelemetryChanged& changed);
  CUptiResult switch_on(const Cupti& cupti, Use use);
  void switch_off(const Cupti& cupti);
  void give_back(const Cupti& cupti);
  void wake_counters();
  static void step_aside();
  static void at_exit();

  // Without a lock.
  void watch_until_closed(const Cupti& cupti);
  void settle(const Cupti& cupti);
  bool wait_for_close();  // for a little; true when the window is over
  void settle_events();
  void keep_pages();
  void flush(const Cupti& cupti);
  void collect();
  policy::KernelMatch match();
  void say(const policy::TelemetryChanged& changed);
  [[nodiscard]] policy::Nanoseconds time() const;

  const TelemetryPlan plan_;
  const Report report_;
  const Wake wake_;
  std::atomic<bool> watching_{false};

  std::mutex cupti_mutex_;
  CuptiBuffers buffers_;
  const Cupti* cupti_ = nullptr;
  bool kinds_on_ = false;
  bool counters_on_ = false;
  bool counters_awake_ = false;
  bool buffers_ours_ = false;
  bool exit_watched_ = false;
  std::atomic<bool> pages_on_{false};  // changed with `cupti_mutex_`
  policy::WatchMarks marks_;
  std::int64_t clock_offset_ = 0;  // CUPTI's clock less ours

  std::mutex mutex_;
  std::condition_variable changed_;
  policy::SampleClock clock_;
  Phase phase_ = Phase::idle;
  Use use_ = Use::none;
  bool close_ = false;    // the window has had its launches
  bool yielded_ = false;  // the program wants CUPTI
  bool stopping_ = false;
  bool done_ = false;
  policy::LaunchNumber latest_;
  policy::Nanoseconds drained_;
  bool cupti_gone_ = false;  // for good
  bool pages_wanted_ = false;
  bool pages_lost_ = false;          // taken by the program, and not told yet
  std::int64_t pages_again_at_ = 0;  // `now()` before which it is not tried again
  std::vector<policy::WatchedLaunch> launches_;
  std::optional<policy::WatchedLaunch> before_;  // the last one told outside of a window

  // Of the thread alone.
  WindowKernels kernels_;
  std::size_t dropped_ = 0;
  std::optional<policy::TelemetryState> said_;
  bool events_;  // may be recorded
  std::thread thread_;
};

}  // namespace spillway::shim
