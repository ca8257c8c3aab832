#include "policy/device_model.hpp"

#include <algorithm>
#include <limits>

namespace spillway::policy {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr std::size_t kEndsKept = 65536;

bool inward(const MoveJob& job) { return job.way == MoveJob::Way::in || job.way == MoveJob::Way::populate; }

}  // namespace

void DeviceModel::launch(LaunchNumber number, Seconds enqueued) { launches_.push_back({number, enqueued.count()}); }

void DeviceModel::move(const MoveJob& job, Seconds issued) {
  Lane& lane = inward(job) ? in_ : out_;
  if (job.front) {
    lane.waiting.push_front({job, issued.count()});
  } else {
    lane.waiting.push_back({job, issued.count()});
  }
}

void DeviceModel::mark(LaunchNumber launch, Seconds issued) {
  MoveJob job;
  job.way = MoveJob::Way::free;
  job.after = launch;
  marks_.waiting.push_back({job, issued.count()});
}

bool DeviceModel::cancel(DecisionId decision) {
  for (Lane* lane : {&in_, &out_}) {
    const auto found = std::find_if(lane->waiting.begin(), lane->waiting.end(),
                                    [decision](const Waiting& w) { return w.job.decision == decision; });
    if (found == lane->waiting.end()) continue;
    lane->waiting.erase(found);
    return true;
  }
  return false;
}

double DeviceModel::seconds(const MoveJob& job) const {
  const auto bytes = static_cast<double>(job.bytes.count());
  switch (job.way) {
    case MoveJob::Way::in:
      return costs_.bring_in(job.bytes, job.bytes);
    case MoveJob::Way::out:
      return bytes / (job.first_time_out ? costs_.move_out_first : costs_.move_out);
    case MoveJob::Way::populate:
      return bytes / costs_.populate;
    case MoveJob::Way::populate_host:
      return bytes / costs_.move_out_first;
    case MoveJob::Way::free:
      return 0;
  }
  return 0;
}

DeviceModel::Pick DeviceModel::pick(const Lane& lane) const {
  const Pick none{lane.waiting.size(), kForever};
  if (lane.running) return none;
  for (std::size_t index = 0; index < lane.waiting.size(); ++index) {
    const Waiting& waiting = lane.waiting[index];
    const std::uint64_t after = waiting.job.after.value;
    if (after > completed_) continue;  // its launch has not run yet; those behind may go first
    double start = std::max(lane.end, waiting.issued);
    if (after != 0) {
      const auto end = std::lower_bound(ends_.begin(), ends_.end(), after,
                                        [](const auto& known, std::uint64_t number) { return known.first < number; });
      if (end != ends_.end() && end->first == after) start = std::max(start, end->second);
    }
    return {index, start};
  }
  return none;
}

DeviceModel::Next DeviceModel::next() const {
  Next best{Next::What::nothing, kForever};
  const auto consider = [&best](Next::What what, double time) {
    if (time < best.time) best = {what, time};
  };
  // Ends come first among equals, so that a launch sees what has arrived.
  if (in_.running) consider(Next::What::end_in, in_.end);
  if (out_.running) consider(Next::What::end_out, out_.end);
  consider(Next::What::mark, pick(marks_).start);
  consider(Next::What::start_in, pick(in_).start);
  consider(Next::What::start_out, pick(out_).start);
  if (!launches_.empty()) consider(Next::What::launch, std::max(launch_free_, launches_.front().enqueued));
  return best;
}

bool DeviceModel::step(double until) {
  const Next event = next();
  if (event.what == Next::What::nothing || event.time > until) return false;
  switch (event.what) {
    case Next::What::nothing:
      break;
    case Next::What::launch:
      run_launch(event.time);
      break;
    case Next::What::start_in:
      start_move(in_, event.time);
      break;
    case Next::What::start_out:
      start_move(out_, event.time);
      break;
    case Next::What::end_in:
      end_move(in_);
      break;
    case Next::What::end_out:
      end_move(out_);
      break;
    case Next::What::mark:
      start_move(marks_, event.time);
      marks_.running = false;
      owner_.passed(marks_.job.after, Seconds(event.time));
      break;
  }
  return true;
}

void DeviceModel::run_launch(double start) {
  const Queued head = launches_.front();
  launches_.pop_front();
  const LaunchLoad load = owner_.load(head.number);
  const double reads = load.remote_read / costs_.link_in;
  const double writes = load.remote_write / costs_.link_out;
  const double remote = std::max({reads, writes, (load.remote_read + load.remote_write) / costs_.link_both});
  const double faults = load.faulted / costs_.fault_in + load.first_touched / costs_.fault_first_touch;
  const double compute = std::max(load.compute_seconds, costs_.launch / 2);
  const double took = std::max(compute, remote) + faults;
  launch_free_ = start + took;
  link_share_ = remote / took;
  for (Lane* lane : {&in_, &out_}) {
    if (lane->running && lane->end > start) lane->end = end_of(*lane, start, lane->end - start);
  }
  completed_ = head.number.value;
  ends_.emplace_back(completed_, launch_free_);
  if (ends_.size() > kEndsKept) ends_.pop_front();
  totals_.busy_seconds += took;
  totals_.compute_seconds += compute;
  totals_.stall_seconds += took - compute;
  totals_.remote_read += load.remote_read;
  totals_.remote_write += load.remote_write;
  totals_.faulted += load.faulted;
}

void DeviceModel::start_move(Lane& lane, double start) {
  const auto chosen = lane.waiting.begin() + static_cast<std::ptrdiff_t>(pick(lane).index);
  lane.job = chosen->job;
  lane.waiting.erase(chosen);
  lane.running = true;
  const double alone = seconds(lane.job);
  const bool crosses = lane.job.way == MoveJob::Way::in || lane.job.way == MoveJob::Way::out;
  const double beside = static_cast<double>(lane.job.bytes.count()) / costs_.move_beside_in_place;
  lane.crawl = crosses && beside > alone ? alone / beside : 1;
  lane.end = end_of(lane, start, alone);
}

double DeviceModel::end_of(const Lane& lane, double now, double left) const {
  const double launch_left = std::max(0.0, launch_free_ - now);
  const double speed = 1 - link_share_ * (1 - lane.crawl);
  return now + std::min(left / speed, left + launch_left * (1 - speed));
}

void DeviceModel::end_move(Lane& lane) {
  lane.running = false;
  const auto bytes = static_cast<double>(lane.job.bytes.count());
  if (lane.job.way == MoveJob::Way::in) totals_.moved_in += bytes;
  if (lane.job.way == MoveJob::Way::out) totals_.moved_out += bytes;
  owner_.finished(lane.job.decision, Seconds(lane.end));
}

void DeviceModel::advance(Seconds now) {
  while (step(now.count())) {
  }
}

Seconds DeviceModel::wait_for_move(DecisionId decision, Seconds now) {
  advance(now);
  const auto pending = [this, decision] {
    for (const Lane* lane : {&in_, &out_}) {
      if (lane->running && lane->job.decision == decision) return true;
      if (std::any_of(lane->waiting.begin(), lane->waiting.end(),
                      [decision](const Waiting& w) { return w.job.decision == decision; })) {
        return true;
      }
    }
    return false;
  };
  double time = now.count();
  while (pending()) {
    const Next event = next();
    if (event.what == Next::What::nothing) break;
    time = std::max(time, event.time);
    step(event.time);
  }
  return Seconds(time);
}

Seconds DeviceModel::wait_for_queue(std::size_t most, Seconds now) {
  advance(now);
  double time = now.count();
  while (launches_.size() > most) {
    const Next event = next();
    if (event.what == Next::What::nothing) break;
    time = std::max(time, event.time);
    step(event.time);
  }
  return Seconds(time);
}

Seconds DeviceModel::finish() {
  double time = 0;
  for (Next event = next(); event.what != Next::What::nothing; event = next()) {
    time = std::max(time, event.time);
    step(event.time);
  }
  return Seconds(std::max(time, launch_free_));
}

}  // namespace spillway::policy
