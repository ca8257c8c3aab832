#include "shim/migration.hpp"

#include <algorithm>
#include <vector>

#include "shim/advice.hpp"
#include "shim/driver.hpp"
#include "shim/migration_lane.hpp"
#include "shim/service_thread.hpp"

namespace spillway::shim {

using policy::MoveOutcome;
using policy::Urgency;

namespace {

bool inward(policy::Placement to) { return to == policy::Placement::device || to == policy::Placement::duplicated; }

}  // namespace

Migration::Migration(MigrationReports reports, StuckAfter stuck_after)
    : reports_(std::move(reports)), stuck_after_(stuck_after) {}

Migration::~Migration() { stop(std::chrono::milliseconds(2000)); }

Migration::Watched::Watched(Migration& migration, const char* what) : migration_(migration) {
  const std::unique_lock lock(migration_.mutex_);
  call_ = migration_.calls_.insert(migration_.calls_.end(), {what, std::chrono::steady_clock::now()});
}

Migration::Watched::~Watched() {
  const std::unique_lock lock(migration_.mutex_);
  migration_.calls_.erase(call_);
}

Migration::Lane* Migration::lane_for(policy::DeviceIndex device, Direction direction) {
  std::unique_ptr<Lane>& lane = lanes_[{device.value, direction}];
  if (lane) return lane->thread.joinable() ? lane.get() : nullptr;
  lane = std::make_unique<Lane>();
  lane->device = device;
  lane->begun = std::chrono::steady_clock::now();
  lane->direction = direction;
  lane->context = context_of(device);
  auto thread = start_service_thread(direction == Direction::inward ? "spillway-in" : "spillway-out",
                                     [this, it = lane.get()] { run(*it); });
  if (!thread) return nullptr;
  lane->thread = std::move(*thread);
  return lane.get();
}

std::shared_ptr<MigrationContext> Migration::context_of(policy::DeviceIndex device) {
  std::shared_ptr<MigrationContext>& context = contexts_[device.value];
  if (!context) context = std::make_shared<MigrationContext>();
  return context;
}

void Migration::watch(const char* what, const std::function<void()>& body) {
  const Watched watched(*this, what);
  body();
}

bool Migration::with_context(policy::DeviceIndex device, const char* what, const std::function<void()>& body) {
  const Watched watched(*this, what);
  CUcontext current = nullptr;
  const Driver& real = driver();
  if (real.cuCtxGetCurrent != nullptr && real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) {
    body();
    return true;
  }
  std::shared_ptr<MigrationContext> context;
  {
    const std::unique_lock lock(mutex_);
    if (const auto found = contexts_.find(device.value); found != contexts_.end()) context = found->second;
  }
  if (!context) return false;
  const RelaxedCapture relaxed;
  if (!enter(*context, device).ok()) return false;
  body();
  real.cuCtxSetCurrent(nullptr);
  return true;
}

policy::DriverResult Migration::enter(MigrationContext& context, policy::DeviceIndex device) {
  const MigrationContext::Made entered = context.enter(device);
  if (entered.tried_now) reports_.context_made(device, entered.result, entered.took);
  return entered.result;
}

void Migration::prepare(policy::DeviceIndex device, std::chrono::milliseconds limit) {
  std::shared_ptr<MigrationContext> context;
  {
    const std::unique_lock lock(mutex_);
    context = context_of(device);
  }
  context->note_free(device);
  std::unique_lock lock(mutex_);
  const Lane* lane = stopping_ ? nullptr : lane_for(device, Direction::outward);
  if (lane != nullptr) changed_.wait_for(lock, limit, [&] { return stopping_ || lane->ready; });
}

bool Migration::enqueue(const Move& move) {
  const Direction direction = inward(move.to) ? Direction::inward : Direction::outward;
  const std::unique_lock lock(mutex_);
  Lane* lane = stopping_ ? nullptr : lane_for(move.device, direction);
  if (lane == nullptr) return false;
  const auto later = std::find_if(lane->queue.begin(), lane->queue.end(),
                                  [&](const Move& other) { return other.urgency < move.urgency; });
  lane->queue.insert(later, move);
  if (move.urgency == Urgency::blocking) ++blocking_open_[move.device.value];
  lane->work.notify_one();
  return true;
}

bool Migration::cancel(policy::AllocationId allocation, std::chrono::milliseconds limit) {
  std::deque<Move> taken;
  std::unique_lock lock(mutex_);
  for (auto& [key, lane] : lanes_) {
    const auto first = std::stable_partition(lane->queue.begin(), lane->queue.end(),
                                             [&](const Move& move) { return move.allocation != allocation; });
    taken.insert(taken.end(), first, lane->queue.end());
    lane->queue.erase(first, lane->queue.end());
  }
  lock.unlock();
  for (const Move& move : taken) report(move, MoveOutcome::cancelled, {}, {});
  lock.lock();
  return changed_.wait_for(lock, limit, [&] {
    return std::none_of(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
      return entry.second->current && entry.second->current->allocation == allocation;
    });
  });
}

std::chrono::steady_clock::time_point Migration::stuck_at(policy::DeviceIndex device) const {
  auto first = std::chrono::steady_clock::time_point::max();
  for (const auto& [key, lane] : lanes_) {
    if (lane->device != device) continue;
    const auto blocking = [](const Move& move) { return move.urgency == Urgency::blocking; };
    if (!(lane->current && blocking(*lane->current)) && std::none_of(lane->queue.begin(), lane->queue.end(), blocking))
      continue;
    if (!lane->ready) {
      first = std::min(first, lane->begun + stuck_after_.other);
    } else if (lane->current) {
      first = std::min(first, lane->current_since + stuck_after_.move);
    }
  }
  return first;
}

bool Migration::wait_for_blocking(policy::DeviceIndex device, std::chrono::milliseconds limit) {
  const auto none_open = [&] {
    const auto open = blocking_open_.find(device.value);
    return open == blocking_open_.end() || open->second == 0;
  };
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex_);
  while (!none_open()) {
    const auto now = std::chrono::steady_clock::now();
    const auto stuck = stuck_at(device);
    if (now >= stuck) {
      lock.unlock();
      look_for_stuck_calls();
      return false;
    }
    if (now >= end) return false;
    changed_.wait_until(lock, std::min(end, stuck));
  }
  return true;
}

void Migration::report(const Move& move, MoveOutcome outcome, policy::DriverResult result, policy::Nanoseconds took) {
  // Told first, counted off afterwards: what policy decides on hearing it is queued before anybody stops waiting.
  reports_.finished(move, outcome, result, took);
  const std::unique_lock lock(mutex_);
  if (move.urgency == Urgency::blocking) {
    // None after `stop`.
    if (const auto open = blocking_open_.find(move.device.value); open != blocking_open_.end() && open->second > 0) {
      --open->second;
    }
  }
  changed_.notify_all();
}

void Migration::run(Lane& lane) {
  // This thread's calls disturb no capture of the program, for all of its life.
  const RelaxedCapture relaxed;
  policy::DriverResult made;
  {
    const Watched watched(*this, "the making of a context");
    made = enter(*lane.context, lane.device);
  }
  MigrationStream stream;
  if (made.ok()) made = stream.make();
  const CUdevice device = lane.context->device();
  std::unique_lock lock(mutex_);
  lane.ready = true;
  changed_.notify_all();
  for (;;) {
    while (!lane.work.wait_for(lock, std::min(stuck_after_.move, stuck_after_.other),
                               [&] { return stopping_ || !lane.queue.empty(); })) {
      lock.unlock();
      look_for_stuck_calls();
      lock.lock();
    }
    if (stopping_) break;
    lane.current = lane.queue.front();
    lane.queue.pop_front();
    lane.current_since = std::chrono::steady_clock::now();
    lane.current_reported = false;
    const Move move = *lane.current;
    changed_.notify_all();  // who waits, waits for this one now
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    const policy::DriverResult result = made.ok() ? stream.prefetch(device, move.address, move.bytes, move.to) : made;
    const policy::Nanoseconds took(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
    report(move, result.ok() ? MoveOutcome::done : MoveOutcome::failed, result, took);
    lock.lock();
    lane.current.reset();
    changed_.notify_all();
  }
  // The context is left to the process's end: destroying it would wait for the driver, which may be going already.
  lane.finished = true;
  changed_.notify_all();
}

void Migration::look_for_stuck_calls() {
  const auto now = std::chrono::steady_clock::now();
  std::deque<std::pair<const char*, std::chrono::seconds>> found;
  {
    const std::unique_lock lock(mutex_);
    for (Call& call : calls_) {
      if (call.reported || now - call.since < stuck_after_.other) continue;
      call.reported = true;
      found.emplace_back(call.what, std::chrono::duration_cast<std::chrono::seconds>(now - call.since));
    }
    for (auto& [key, lane] : lanes_) {
      if (!lane->current || lane->current_reported) continue;
      if (now - lane->current_since < stuck_after_.move) continue;
      const auto since = std::chrono::duration_cast<std::chrono::seconds>(now - lane->current_since);
      lane->current_reported = true;
      found.emplace_back(lane->direction == Direction::inward ? "a prefetch to the device" : "a prefetch to the host",
                         since);
    }
  }
  for (const auto& [what, since] : found) reports_.stuck(what, since);
}

void Migration::stop(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (auto& [key, lane] : lanes_) {
    lane->queue.clear();
    lane->work.notify_all();
  }
  blocking_open_.clear();
  changed_.wait_for(lock, limit, [&] {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const auto& entry) { return entry.second->finished || !entry.second->thread.joinable(); });
  });
  for (auto& [key, lane] : lanes_) {
    if (!lane->thread.joinable()) continue;
    if (!lane->finished) {
      // A call that does not come back: its thread keeps the lane for ever, on purpose.
      static auto* const left_behind = new std::vector<Lane*>;  // in sight of leak checkers
      lane->thread.detach();
      left_behind->push_back(lane.release());
      continue;
    }
    lock.unlock();
    lane->thread.join();
    lock.lock();
  }
  lanes_.clear();
}

}  // namespace spillway::shim
