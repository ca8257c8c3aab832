#include "shim/session.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "shim/advice.hpp"
#include "shim/driver.hpp"
#include "shim/driver_error.hpp"
#include "shim/log.hpp"
#include "shim/service_thread.hpp"

namespace spillway::shim {

using policy::Bytes;
using policy::DeviceIndex;
using policy::Event;
using policy::EventBody;
using policy::Nanoseconds;

namespace {

std::vector<policy::trace::RuleSeen> names_of(const std::vector<policy::Rule>& rules) {
  std::vector<policy::trace::RuleSeen> names;
  for (const policy::Rule& rule : rules) names.push_back({rule.name, rule.line});
  return names;
}

// The setting says so, and no rule says otherwise.
bool keeps_all_plain(const policy::Settings& settings, const std::vector<policy::Rule>& rules) {
  return settings.backing == policy::BackingMode::device &&
         std::none_of(rules.begin(), rules.end(),
                      [](const policy::Rule& rule) { return rule.action.backing == policy::Backing::managed; });
}

bool can_advise(const Driver& real) {
  return (real.cuMemAdvise_v2 != nullptr || real.cuMemAdvise != nullptr) &&
         (real.cuMemPrefetchAsync_v2 != nullptr || real.cuMemPrefetchAsync != nullptr);
}

}  // namespace

bool Session::Work::blocking() const {
  return std::any_of(decisions.begin(), decisions.end(), [](const policy::Decision& decision) {
    const auto* move = std::get_if<policy::MoveRange>(&decision.body);
    return move != nullptr && move->urgency == policy::Urgency::blocking;
  });
}

Session::Session(RunSettings run, std::uint32_t device_count)
    : settings_(std::move(run.settings)),
      has_rules_(!run.rules.empty()),
      all_plain_(keeps_all_plain(settings_, run.rules)),
      policy_file_(run.policy_file),
      costs_(run.costs),
      rules_seen_(names_of(run.rules)),
      started_(now()),
      acts_before_launches_(settings_.mode == policy::ModeName::demand ||
                            settings_.mode == policy::ModeName::alloc_prefetch),
      ticks_(launch_path().use_counter),
      engine_(settings_, std::move(run.rules), costs_.value_or(policy::CostTable{})),
      migration_({
          [this](const Move& move, policy::MoveOutcome outcome, policy::DriverResult result, Nanoseconds took) {
            if (move.urgency == policy::Urgency::blocking && outcome == policy::MoveOutcome::cancelled) {
              const std::unique_lock lock(mutex_);
              room_.missed(move.device);
            }
            Work answers;
            move_ended(move.decision, outcome, result, took, answers);
            carry_out(answers);
            if (outcome == policy::MoveOutcome::failed) {
              SPILLWAY_LOG_ONCE(warning, "the driver refused to move {} ({}); the program goes on without it",
                                policy::format_bytes(move.bytes), error_name(result));
            }
          },
          [this](DeviceIndex device, policy::DriverResult result, Bytes bytes) {
            Work work;
            {
              const std::unique_lock lock(mutex_);
              if (result.ok()) {
                decide(policy::DeviceReserved{device, bytes, "migration context"}, work);
              } else {
                own_contexts_[device.value] = OwnContext::refused;
                decide(policy::ContextRefused{device, result}, work);
              }
            }
            if (result.ok()) {
              SPILLWAY_LOG_FOR(debug, device.value, "device {}: our own context takes {} of its memory", device.value,
                               policy::format_bytes(bytes));
            } else {
              SPILLWAY_LOG_FOR(warning, device.value,
                               "device {}: the driver refused a context for moves ({}): what spills stays on the host; "
                               "a lower memory.device_budget (--device-budget) leaves it room",
                               device.value, error_name(result));
            }
            carry_out(work);
          },
          [](const char* what, std::chrono::seconds since) {
            SPILLWAY_LOG_FOR(warning, subject_of(what), "{} has been stuck for {} s in the driver", what,
                             since.count());
          },
      }) {
  see_devices(device_count);
  const policy::trace::TraceHeader about = header();
  trace_.open(settings_, about);
  page_.open(about, settings_);
  Work work;
  {
    const std::unique_lock lock(mutex_);
    refresh_host_memory(work);
    if (!all_plain_) host_total_ = std::min(settings_.host_budget.of(host_available_), host_available_);
    for (const auto& [index, device] : devices_) decide(device, work);
  }
  trace_.begin();
  announce();
  start_telemetry(device_count);
  auto thread = start_service_thread("spillway-policy", [this] {
    run_policy_thread();
    const std::unique_lock lock(mutex_);
    policy_thread_ended_ = true;
    policy_thread_ends_.notify_all();
  });
  if (thread) policy_thread_ = std::move(*thread);
}

void Session::see_devices(std::uint32_t count) {
  const Driver& real = driver();
  for (std::uint32_t index = 0; index < count; ++index) {
    policy::DeviceSeen device;
    CUdevice handle = 0;
    if (real.cuDeviceGet(&handle, static_cast<int>(index)) != CUDA_SUCCESS) continue;
    std::size_t total = 0;
    int concurrent = 0;
    std::array<char, 256> name{};
    CUuuid uuid{};
    // A device whose size we cannot know has no budget: it is left alone.
    if (real.cuDeviceTotalMem_v2(&total, handle) != CUDA_SUCCESS) continue;
    real.cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, handle);
    real.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), handle);
    if (real.cuDeviceGetUuid_v2 != nullptr) real.cuDeviceGetUuid_v2(&uuid, handle);
    device.device = {index};
    std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), reinterpret_cast<char*>(device.uuid.data()));
    // What is free can be asked only with a context; `device_used` does.
    device.total = device.free = Bytes(total);
    device.can_spill = concurrent != 0 && real.cuMemAllocManaged != nullptr && can_advise(real);
    device.name = name.data();
    devices_[index] = device;
  }
}

Nanoseconds Session::since_start(std::int64_t monotonic) {
  // Rings are merged by time, but a thread may publish late; policy's time never runs back.
  last_time_ = std::max(last_time_, Nanoseconds(std::max<std::int64_t>(monotonic - started_, 0)));
  return last_time_;
}

void Session::decide(EventBody body, Work& work) {
  const std::int64_t moment = now();  // before the look at what was launched, so that nothing of it is later
  drain(work);
  decide_at(since_start(moment), std::move(body), work);
}

void Session::decide_at(Nanoseconds time, EventBody body, Work& work) {
  const Event event{time, std::move(body)};
  const std::size_t before = work.decisions.size();
  engine_.process(event, work.decisions);
  ++events_;
  trace_.add(event);
  for (std::size_t index = before; index < work.decisions.size(); ++index) {
    const policy::Decision& decision = work.decisions[index];
    trace_.add(time, decision);
    const Registered* target = registry_.find(policy::about(decision.body));
    work.targets.push_back(target == nullptr ? std::nullopt : std::optional(*target));
    ++decided_;
  }
}

void Session::carry_out(const Work& work) {
  // One after the other and not within: a process that ends refuses all moves that are waiting, each in answer to the
  // one before it.
  for (Work answers = carry_out_these(work); !answers.decisions.empty();) answers = carry_out_these(answers);
}

Session::Work Session::carry_out_these(const Work& work) {
  Work answers;
  for (std::size_t index = 0; index < work.decisions.size(); ++index) {
    const policy::Decision& decision = work.decisions[index];
    const std::optional<Registered>& target = work.targets[index];
    if (const auto* note = std::get_if<policy::Note>(&decision.body)) {
      SPILLWAY_LOG(debug, "policy: {}", note->text);
    }
    if (const auto* marks = std::get_if<policy::MarkProgress>(&decision.body))
      ask_for_marks(decision.id, *marks, answers);
    if (!target) continue;
    if (const auto* advise = std::get_if<policy::AdviseRange>(&decision.body)) {
      policy::DriverResult result;
      // Advice needs a context, whichever: the policy thread and some threads of the program have none.
      while_it_lives(advise->allocation, [&] {
        migration_.with_context(target->device, "an advice", [&] {
          result = give_advice(target->device, target->address + advise->offset, advise->bytes, advise->advice);
        });
      });
      if (!result.ok()) SPILLWAY_LOG_ONCE(warning, "the driver refused an advice ({})", error_name(result));
    } else if (const auto* move = std::get_if<policy::MoveRange>(&decision.body)) {
      switch (queue(decision.id, *move, *target)) {
        case Queued::yes:
          break;
        case Queued::no:
          move_ended(decision.id, policy::MoveOutcome::cancelled, {}, {}, answers);
          break;
        case Queued::no_context:
          move_from_here(decision.id, *move, *target, answers);
      }
    } else if (const auto* cancel = std::get_if<policy::CancelMoves>(&decision.body)) {
      if (!migration_.cancel(cancel->allocation, kWaitForFree)) {
        SPILLWAY_LOG_ONCE(warning, "memory is being freed while the driver still moves it; going on");
      }
    }
  }
  return answers;
}

void Session::while_it_lives(policy::AllocationId allocation, const std::function<void()>& body) {
  {
    // Freed since it was decided? Its address may be another's.
    const std::unique_lock lock(mutex_);
    const Registered* now = registry_.find(allocation);
    if (now == nullptr || now->freeing) return;
    room_.use_begins(allocation);
  }
  body();
  const std::unique_lock lock(mutex_);
  room_.use_ends(allocation);
}

void Session::move_from_here(policy::DecisionId decision, const policy::MoveRange& move, const Registered& target,
                             Work& answers) {
  policy::MoveOutcome outcome = policy::MoveOutcome::cancelled;
  policy::DriverResult result;
  const std::int64_t start = now();
  while_it_lives(move.allocation, [&] {
    const bool called = migration_.with_context(target.device, "a move from the program's context", [&] {
      result = prefetch_from_here(target.device, target.address + move.offset, move.bytes, move.to);
    });
    if (called) outcome = result.ok() ? policy::MoveOutcome::done : policy::MoveOutcome::failed;
  });
  move_ended(decision, outcome, result, Nanoseconds(now() - start), answers);
}

Session::Queued Session::queue(policy::DecisionId decision, const policy::MoveRange& move, const Registered& target) {
  // Freed since it was decided? Then `cancel` has been by, and nothing may be queued behind its back: what is checked
  // and queued under the lock is seen by it.
  const std::unique_lock lock(mutex_);
  const Registered* now = registry_.find(move.allocation);
  const bool going = now == nullptr || now->freeing;
  if (going && move.urgency == policy::Urgency::blocking) room_.missed(target.device);
  if (!going && own_contexts_[target.device.value] != OwnContext::made) return Queued::no_context;
  const bool queued = !going && migration_.enqueue({decision, move.allocation, target.device,
                                                    target.address + move.offset, move.bytes, move.to, move.urgency});
  return queued ? Queued::yes : Queued::no;
}

void Session::move_ended(policy::DecisionId decision, policy::MoveOutcome outcome, policy::DriverResult result,
                         Nanoseconds took, Work& answers) {
  const std::unique_lock lock(mutex_);
  decide(policy::MoveFinished{decision, outcome, result, took}, answers);
}

void Session::ask_for_marks(policy::DecisionId decision, const policy::MarkProgress& marks, Work& answers) {
  const std::unique_lock lock(mutex_);
  if (decision < marks_asked_) return;  // another thread carried out a later one
  marks_asked_ = decision;
  progress_marks().want(marks.every);
  if (const CUresult code = progress_marks().refused(); marks.every != 0 && code != CUDA_SUCCESS) {
    marks_refused_ = true;
    decide(policy::MarkPassed{{}, {static_cast<std::int32_t>(code)}}, answers);
  }
}

void Session::tell_marks(const ProgressMarks::Progress& progress, Work& work) {
  if (progress.passed) decide(policy::MarkPassed{progress.passed, {}}, work);
  if (progress.refused == CUDA_SUCCESS || std::exchange(marks_refused_, true)) return;
  decide(policy::MarkPassed{{}, {static_cast<std::int32_t>(progress.refused)}}, work);
}

bool Session::wait_for_room(const Work& work) {
  bool done = true;
  std::set<std::uint32_t> devices;
  for (std::size_t index = 0; index < work.decisions.size(); ++index) {
    const auto* move = std::get_if<policy::MoveRange>(&work.decisions[index].body);
    const std::optional<Registered>& target = work.targets[index];
    if (move == nullptr || move->urgency != policy::Urgency::blocking || !target) continue;
    if (devices.insert(target->device.value).second) {
      done = migration_.wait_for_blocking(target->device, kWaitForMoves) && done;
    }
  }
  if (done) return true;
  SPILLWAY_LOG_ONCE(warning, "the program waited for moves that did not end; it goes on without them");
  return false;
}

bool Session::device_used(DeviceIndex device) {
  {
    const std::unique_lock lock(mutex_);
    const auto seen = devices_.find(device.value);
    if (seen == devices_.end()) return false;
    if (devices_with_context_.contains(device.value)) return true;
  }
  // What is free can be asked of the device that is current only.
  CUdevice current = 0;
  if (driver().cuCtxGetDevice(&current) != CUDA_SUCCESS || static_cast<std::uint32_t>(current) != device.value)
    return true;
  {
    const std::unique_lock lock(mutex_);
    if (!devices_with_context_.insert(device.value).second) return true;
  }
  std::size_t free = 0;
  std::size_t total = 0;
  if (driver().cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return true;
  Work work;
  {
    const std::unique_lock lock(mutex_);
    policy::DeviceSeen& seen = devices_.at(device.value);
    seen.free = Bytes(free);
    decide(seen, work);
  }
  announce(device);
  carry_out(work);
  return true;
}

void Session::stream_going(CUstream stream) {
  Work work;
  {
    const std::unique_lock lock(mutex_);
    drain(work);
    streams_.erase(reinterpret_cast<std::uint64_t>(stream));
  }
  carry_out(work);
}

void Session::code_going() {
  Work work;
  {
    const std::unique_lock lock(mutex_);
    drain(work);
  }
  carry_out(work);
}

}  // namespace spillway::shim
