// Carries out policy's moves: prefetches in contexts of our own, so that the program's launches never wait for them
// (docs/driver_facts.md: 4 us as if idle, against milliseconds from the program's context).
//
// A lane is a thread with a stream in our context; each device has one inward and one outward, made on first use. Moves
// of a lane run in the order of their urgency, then of arrival. A failed move is reported, never retried: it was a
// hint. Thread rules: every member may be called from any thread, with none of our locks held but where it says so.
// `finished` is called on a lane with no lock of ours held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/units.hpp"
#include "shim/cuda_driver.hpp"
#include "shim/migration_lane.hpp"

namespace spillway::shim {

struct Move {
  policy::DecisionId decision;
  policy::AllocationId allocation;
  policy::DeviceIndex device;
  policy::Address address;
  policy::Bytes bytes;
  policy::Placement to = policy::Placement::device;
  policy::Urgency urgency = policy::Urgency::background;
};

struct MigrationReports {
  std::function<void(const Move&, policy::MoveOutcome, policy::DriverResult, policy::Nanoseconds took)> finished;
  // Once for each device: whether the driver made it, and the device memory that it took.
  std::function<void(policy::DeviceIndex, policy::DriverResult, policy::Bytes)> context_made;
  std::function<void(const char* what, std::chrono::seconds)> stuck;  // a driver call that does not come back
};

// A driver call is stuck that takes longer. A move is some 256 MiB at the most, so tens of milliseconds; making a
// context on a busy machine takes seconds.
struct StuckAfter {
  std::chrono::milliseconds move = std::chrono::seconds(2);
  std::chrono::milliseconds other = std::chrono::seconds(10);
};

class Migration {
 public:
  explicit Migration(MigrationReports reports, StuckAfter stuck_after = {});
  ~Migration();
  Migration(const Migration&) = delete;
  Migration& operator=(const Migration&) = delete;

  // Makes this device's context now, rather than when it is needed first: its memory is counted before the budget is
  // filled. Waits for it, at most `limit`. What it takes is measured from the calling thread's context, if it has one.
  void prepare(policy::DeviceIndex device, std::chrono::milliseconds limit);
  // False if nobody can carry it out; then nothing is reported. May be called with the session's lock held.
  [[nodiscard]] bool enqueue(const Move& move);
  // Takes back what is queued for this allocation (reported as cancelled) and waits, at most `limit`, for what is in
  // flight: the driver must not be told to move memory that is being freed. False if the limit passed.
  bool cancel(policy::AllocationId allocation, std::chrono::milliseconds limit);
  // Waits until no blocking move of this device is open: another's may be stuck. False if `limit` passed, or as soon as
  // one of them, or what is in its way, is stuck: then it is reported, and nobody waits for that lane until it comes
  // back.
  bool wait_for_blocking(policy::DeviceIndex device, std::chrono::milliseconds limit);
  // Calls `body` with a context current on this thread: the one that is, else ours, for that long. False, and no call,
  // if there is neither: ours is made by `prepare` or a move only. `what` names the call if it does not come back.
  bool with_context(policy::DeviceIndex device, const char* what, const std::function<void()>& body);
  // Calls `body`, whose driver calls are named as `what` if they do not come back.
  void watch(const char* what, const std::function<void()>& body);
  // Reports driver calls that have been under way for long, once each. For a timer; idle lanes look as well, as the
  // timer's own thread may be what is stuck.
  void look_for_stuck_calls();
  // Ends the lanes: what is queued is dropped, calls in flight are waited for at most `limit`, then left behind.
  void stop(std::chrono::milliseconds limit);

 private:
  // A driver call under way that is no move.
  struct Call {
    const char* what;
    std::chrono::steady_clock::time_point since;
    bool reported = false;
  };
  // Lists one for as long as it lives.
  class Watched {
   public:
    Watched(Migration& migration, const char* what);
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    Migration& migration_;
    std::list<Call>::iterator call_;
  };

  enum class Direction : std::uint8_t { inward, outward };
  struct Lane {
    policy::DeviceIndex device;
    Direction direction = Direction::inward;
    std::shared_ptr<MigrationContext> context;
    std::deque<Move> queue;
    std::optional<Move> current;
    std::chrono::steady_clock::time_point current_since;
    bool current_reported = false;
    std::chrono::steady_clock::time_point begun;
    bool ready = false;  // its context is made, or could not be
    bool finished = false;
    std::condition_variable work;
    std::thread thread;
  };

  std::shared_ptr<MigrationContext> context_of(policy::DeviceIndex device);           // with the lock
  policy::DriverResult enter(MigrationContext& context, policy::DeviceIndex device);  // and reports its making
  Lane* lane_for(policy::DeviceIndex device,
                 Direction direction);  // with the lock; nullptr if there is no thread for it
  void run(Lane& lane);
  // When the first call becomes stuck that blocking moves of this device wait for; with the lock.
  [[nodiscard]] std::chrono::steady_clock::time_point stuck_at(policy::DeviceIndex device) const;
  void report(const Move& move, policy::MoveOutcome outcome, policy::DriverResult result, policy::Nanoseconds took);

  MigrationReports reports_;
  const StuckAfter stuck_after_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::uint32_t, Direction>, std::unique_ptr<Lane>> lanes_;
  std::map<std::uint32_t, std::shared_ptr<MigrationContext>> contexts_;  // by device
  std::map<std::uint32_t, std::size_t> blocking_open_;                   // by device
  std::list<Call> calls_;
  bool stopping_ = false;
};

}  // namespace spillway::shim
