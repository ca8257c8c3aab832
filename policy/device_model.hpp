// Prices launches and moves on a virtual device: one queue of launches, one lane of moves each way, and a link that
// both share. `replay` estimates time with it; the simulated device can advance its clock by it.
//
// Event driven: launches and moves are queued when the program or policy asks, and take effect in the order in which
// the virtual device gets to them. So a launch sees the residency at the time it runs, not at the time it was enqueued.
// Rules: a launch takes its compute time or the time its remote bytes need, whichever is longer; these have the link
// first, and what moves meanwhile crawls; faults stop the launch; move calls cost time by their size (CostTable).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// Seconds on the virtual clock.
using Seconds = Quantity<struct SecondsTag, double>;

// What a launch costs where things are when it runs.
struct LaunchLoad {
  double compute_seconds = 0;
  double remote_read = 0;  // bytes that cross the link, re-reads counted
  double remote_write = 0;
  double faulted = 0;        // bytes brought in by faults
  double first_touched = 0;  // bytes populated by faults
};

struct MoveJob {
  DecisionId decision;
  Bytes bytes;
  enum class Way : std::uint8_t { in, out, populate, populate_host, free } way = Way::in;
  bool first_time_out = false;  // host pages are allocated on the way
  LaunchNumber after;
  bool front = false;  // blocking: goes before what waits in its lane
};

struct ModelTotals {
  double busy_seconds = 0;  // of the launch queue
  double compute_seconds = 0;
  double stall_seconds = 0;  // busy beyond compute: remote access and faults
  double moved_in = 0;
  double moved_out = 0;
  double remote_read = 0;
  double remote_write = 0;
  double faulted = 0;
  [[nodiscard]] double crossed() const { return moved_in + moved_out + remote_read + remote_write + faulted; }
};

class DeviceModel {
 public:
  // `load` is asked when a launch starts; `finished` is told when a move ends, `passed` when a mark is passed.
  struct Owner {
    std::function<LaunchLoad(LaunchNumber)> load;
    std::function<void(DecisionId, Seconds)> finished;
    std::function<void(LaunchNumber, Seconds)> passed = [](LaunchNumber, Seconds) {};
  };
  DeviceModel(CostTable costs, Owner owner) : costs_(costs), owner_(std::move(owner)) {}

  void launch(LaunchNumber number, Seconds enqueued);
  void move(const MoveJob& job, Seconds issued);
  // `passed` is told when this launch has run.
  void mark(LaunchNumber launch, Seconds issued);
  // Drops a move that has not started; false if it runs or is unknown.
  bool cancel(DecisionId decision);

  // Carries out everything that starts or ends up to `now`.
  void advance(Seconds now);
  // Advances until this move is done, or the launch queue is no longer than `most`; the time that took.
  Seconds wait_for_move(DecisionId decision, Seconds now);
  Seconds wait_for_queue(std::size_t most, Seconds now);
  // Until everything is done.
  Seconds finish();

  [[nodiscard]] std::size_t queued() const { return launches_.size(); }
  [[nodiscard]] Seconds launches_end() const { return Seconds(launch_free_); }
  [[nodiscard]] const ModelTotals& totals() const { return totals_; }

 private:
  struct Queued {
    LaunchNumber number;
    double enqueued;
  };
  struct Waiting {
    MoveJob job;
    double issued;
  };
  struct Lane {
    std::deque<Waiting> waiting;
    bool running = false;
    MoveJob job;
    double crawl = 1;  // of the running move's speed, while a launch has all of the link
    double end = 0;    // of the running move if launches leave it the link, or when the lane became free
  };
  struct Next {
    enum class What : std::uint8_t { nothing, launch, start_in, start_out, end_in, end_out, mark } what = What::nothing;
    double time = 0;
  };

  [[nodiscard]] Next next() const;
  // The first waiting move whose launch has run, and when it could start; past the end if there is none.
  struct Pick {
    std::size_t index = 0;
    double start = 0;
  };
  [[nodiscard]] Pick pick(const Lane& lane) const;
  bool step(double until);
  void run_launch(double start);
  void start_move(Lane& lane, double start);
  void end_move(Lane& lane);
  [[nodiscard]] double seconds(const MoveJob& job) const;
  // When a move is done that has `left` seconds to go from `now` on, were the link its own.
  [[nodiscard]] double end_of(const Lane& lane, double now, double left) const;

  CostTable costs_;
  Owner owner_;
  std::deque<Queued> launches_;
  double launch_free_ = 0;       // when the last started launch ends
  double link_share_ = 0;        // of its time, in which it uses the link
  std::uint64_t completed_ = 0;  // launches that have started; all before them have ended by launch_free_
  std::deque<std::pair<std::uint64_t, double>> ends_;  // recent launches and when they end
  Lane in_, out_;
  Lane marks_;  // takes no time
  ModelTotals totals_;
};

}  // namespace spillway::policy
