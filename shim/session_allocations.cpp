// The session's way of an allocation: ask, wait for its place, settle; of a free; and what memory looks like.
#include <algorithm>
#include <optional>
#include <utility>

#include "policy/plain_memory.hpp"
#include "shim/host_memory.hpp"
#include "shim/log.hpp"
#include "shim/physical_memory.hpp"
#include "shim/session.hpp"

namespace spillway::shim {

using policy::Bytes;
using policy::DeviceIndex;

namespace {

// How old our knowledge of host memory may be when it decides an allocation.
constexpr std::int64_t kHostMemoryAge = 50'000'000;
// How often room in HBM that was taken back is asked for anew, before what can spill does without.
constexpr int kMostAsks = 4;

bool spilled(const AllocationAnswer& answer, const AllocationRequest& request) {
  return answer.backing == policy::Backing::managed && request.kind != policy::AllocationKind::program_managed;
}

}  // namespace

void Session::refresh_host_memory(Work& work) {
  const std::int64_t moment = now();
  if (host_read_at_ != 0 && moment - host_read_at_ < kHostMemoryAge) return;
  host_read_at_ = moment;
  const HostMemory memory = read_host_memory();
  // What was known before is nearer the truth than a figure without the groups' limits.
  if (memory.proc_error != 0 && host_proc_error_ == 0 && host_available_ > Bytes()) return;
  host_proc_error_ = memory.proc_error;
  if (memory.available == host_available_) return;
  host_available_ = memory.available;
  decide(policy::HostMemorySeen{host_available_}, work);
}

bool Session::needs_context(const AllocationRequest& request) {
  return own_contexts_[request.device.value] == OwnContext::none &&
         engine_.lacking_to_move(request.device) == Bytes() &&
         engine_.would_spill({{}, request.device, request.bytes, request.kind, {}, {}, request.capturing});
}

void Session::prepare_to_spill(const AllocationRequest& request) {
  {
    std::unique_lock lock(mutex_);
    if (!needs_context(request)) return;
    room_.measuring_begins(lock, request.device, kWaitForFree);
  }
  struct Measured {
    ~Measured() {
      const std::unique_lock lock(session.mutex_);
      OwnContext& context = session.own_contexts_[device.value];
      if (context == OwnContext::none) context = OwnContext::made;
      session.room_.measuring_ends(device);
    }
    Session& session;
    DeviceIndex device;
  };
  const Measured measured{*this, request.device};
  // Every thread that comes now waits here, else it would fill what the context is about to take.
  migration_.prepare(request.device, kWaitForMoves);
}

void Session::say_unmoved(DeviceIndex device) {
  policy::DeviceTotals totals;
  Bytes lacking;
  Bytes set;
  {
    const std::unique_lock lock(mutex_);
    if (own_contexts_[device.value] != OwnContext::none) return;
    totals = engine_.totals(device);
    lacking = engine_.lacking_to_move(device);
    if (lacking == Bytes() || !said_unmoved_.insert(device.value).second) return;
    if (settings_.device_budget) set = settings_.device_budget->of(devices_.at(device.value).total);
  }
  const bool more_is_free = settings_.device_budget && set <= totals.budget;
  SPILLWAY_LOG(
      warning,
      "device {}: the budget of {} has no room for Spillway's own context, in which pages move, beside {} that "
      "cannot leave: what spills stays on the host{}",
      device.value, policy::format_bytes(totals.budget), policy::format_bytes(totals.plain),
      more_is_free ? "; it takes a memory.device_budget (--device-budget) of at least " +
                         policy::format_bytes(totals.budget + lacking) + ", and more if more comes that cannot leave"
                   : ", and no more of the card is free");
}

bool Session::wait_for_frees(std::unique_lock<std::mutex>& lock, const AllocationRequest& request) {
  const policy::DeviceIndex device = request.device;
  const bool counted =
      request.kind != policy::AllocationKind::program_managed && request.kind != policy::AllocationKind::imported;
  if (!counted || !room_.frees_under_way(device)) return true;
  // Spilled memory takes only a place that is free.
  const policy::AllocationRequested asked{{}, device, request.bytes, request.kind, {}, {}, request.capturing};
  if (!has_rules_ && engine_.would_spill(asked)) return true;
  const policy::DeviceTotals totals = engine_.totals(device);
  const Bytes filled = totals.plain + totals.reserved + totals.resident + totals.arriving;
  const Bytes taken = policy::PlainMemory::most(request.bytes);
  if (!room_.promises_open(device) && filled + taken <= totals.budget) return true;
  return room_.wait_for_frees(lock, device, kWaitForFree);
}

AllocationAnswer Session::request(const AllocationRequest& request) {
  const Library library = calling_library(request.caller);
  const auto deadline = std::chrono::steady_clock::now() + kWaitForMoves;
  Refusal refusal;
  AllocationAnswer answer;
  for (int times = 1;; ++times) {
    prepare_to_spill(request);
    answer = ask(request, library, times == kMostAsks ? Lost::for_good : Lost::to_another, refusal);
    if (!refusal.ask_again || std::chrono::steady_clock::now() >= deadline) break;
  }
  // What is moving cannot make room, but will: a refusal for that reason is worth a wait. What can spill now, as the
  // device was found full meanwhile, needs no room.
  if (answer.refused && refusal.reason == policy::Reason::device_budget &&
      (may_spill(request) || (!refusal.ask_again && migration_.wait_for_blocking(request.device, kWaitForMoves)))) {
    prepare_to_spill(request);
    answer = ask(request, library, Lost::for_good, refusal);
  }
  if (answer.refused) explain(request, refusal, answer);
  // What is mapped would not move in any case.
  const bool movable = spilled(answer, request) && request.kind != policy::AllocationKind::stretchable;
  if (!answer.refused && movable) say_unmoved(request.device);
  return answer;
}

void Session::explain(const AllocationRequest& request, const Refusal& refusal, AllocationAnswer& answer) {
  answer.reason = refusal.reason;
  answer.missing = refusal.missing;
  const std::unique_lock lock(mutex_);
  answer.host_memory = engine_.host_memory();
  answer.host_is_full = settings_.host_budget.of(answer.host_memory) >= answer.host_memory;
  const bool mapped = request.kind == policy::AllocationKind::stretchable;
  const bool spillable =
      mapped || ((request.kind == policy::AllocationKind::linear || request.kind == policy::AllocationKind::pitched) &&
                 request.bytes >= policy::kChunk);
  if (refusal.rule != 0 && refusal.rule <= rules_seen_.size()) {
    const policy::trace::RuleSeen& rule = rules_seen_[refusal.rule - 1U];
    answer.kept_plain_by = "rule " + policy::quoted(rule.name) + " (" + policy_file_ + ":" + std::to_string(rule.line) +
                           ", backing = \"device\")";
  } else if (spillable && settings_.backing == policy::BackingMode::device) {
    answer.kept_plain_by = "memory.backing = \"device\" (--backing)";
  }
}

bool Session::may_spill(const AllocationRequest& request) {
  const std::unique_lock lock(mutex_);
  return engine_.would_spill({{}, request.device, request.bytes, request.kind, {}, {}, request.capturing});
}

Bytes Session::budget(DeviceIndex device) {
  const std::unique_lock lock(mutex_);
  return engine_.totals(device).budget;
}

// A question under way. Without memory for our own books it has no answer: what was counted for it is taken back.
class Session::Asking {
 public:
  Asking(Session& session, const AllocationRequest& request, const AllocationAnswer& answer)
      : session_(session), request_(request), answer_(answer) {}
  ~Asking() {
    session_.give_turn();
    if (answered_ || !counted_) return;
    const std::unique_lock lock(session_.mutex_);
    if (promised_) session_.room_.settled(request_.device);
    session_.room_.call_ends(request_.device);
    const policy::DriverResult result{CUDA_ERROR_OUT_OF_MEMORY};
    try {
      Work work;
      session_.decide_at(session_.last_time_,
                         policy::AllocationSettled{answer_.id, {}, request_.bytes, answer_.backing, result}, work);
    } catch (...) {
    }
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  // With the lock.
  void begins(std::unique_lock<std::mutex>& lock) {
    session_.room_.call_begins(lock, request_.device, kWaitForMoves);
    counted_ = true;
  }
  void refused() {
    session_.room_.call_ends(request_.device);
    counted_ = false;
  }
  void promised() {
    session_.room_.promised(request_.device);
    promised_ = true;
  }
  void answered() { answered_ = true; }  // `settle` follows

 private:
  Session& session_;
  const AllocationRequest& request_;
  const AllocationAnswer& answer_;
  bool counted_ = false;
  bool promised_ = false;
  bool answered_ = false;
};

AllocationAnswer Session::ask(const AllocationRequest& request, const Library& library, Lost lost, Refusal& refusal) {
  Work work;
  AllocationAnswer answer;
  Asking asking(*this, request, answer);
  refusal = {};
  std::uint64_t misses = 0;
  bool has_room = true;
  // Before policy is asked: what it sends out counts until it has left, and a launch that came between would find no
  // room and nothing to wait for.
  take_turn();
  {
    std::unique_lock lock(mutex_);
    asking.begins(lock);
    has_room = wait_for_frees(lock, request);
    if (needs_context(request)) {  // since it was asked about
      asking.refused();
      refusal.ask_again = answer.refused = true;
      return answer;
    }
    drain(work);
    const policy::CallerId caller = caller_of(library, work);
    if (request.bytes >= policy::kChunk) refresh_host_memory(work);
    answer.id = {++last_allocation_};
    misses = room_.misses(request.device);
    const std::size_t before = work.decisions.size();
    decide(policy::AllocationRequested{answer.id, request.device, request.bytes, request.kind, caller,
                                       stream_of(request.stream), request.capturing},
           work);
    for (std::size_t index = before; index < work.decisions.size(); ++index) {
      const policy::Decision& decision = work.decisions[index];
      if (const auto* back = std::get_if<policy::BackAllocation>(&decision.body)) answer.backing = back->backing;
      if (const auto* refused = std::get_if<policy::RefuseAllocation>(&decision.body)) {
        answer.refused = true;
        refusal = {decision.cause.reason, refused->missing, decision.cause.rule, false};
      }
    }
    if (!answer.refused && spilled(answer, request)) asking.promised();
    if (answer.refused) asking.refused();
  }
  finish_launches(work);
  carry_out(work);
  has_room = wait_for_room(work) && has_room;
  give_turn();
  if (answer.refused) return answer;
  bool missed = false;
  if (answer.backing == policy::Backing::device && has_room && work.blocking()) {
    const std::unique_lock lock(mutex_);
    missed = room_.misses(request.device) != misses;
  }
  asking.answered();
  if (answer.backing != policy::Backing::device || (has_room && !missed)) return answer;
  // Its room is not there, and going on would break the budget. What was taken back leaves another place to ask for.
  const bool anew = missed && lost == Lost::to_another;
  settle(answer, request, {}, request.bytes, anew ? CUDA_ERROR_NOT_READY : CUDA_ERROR_OUT_OF_MEMORY);
  answer.refused = true;
  refusal = {policy::Reason::device_budget, request.bytes, 0, missed};
  return answer;
}

void Session::settle(const AllocationAnswer& answer, const AllocationRequest& request, policy::Address address,
                     Bytes bytes, CUresult result) {
  Work work;
  {
    const std::unique_lock lock(mutex_);
    struct Call {
      ~Call() { room.call_ends(device); }
      RoomWatch& room;
      DeviceIndex device;
    };
    const Call call{room_, request.device};  // over also where there is no memory for our books
    if (spilled(answer, request)) room_.settled(request.device);
    if (result == CUDA_SUCCESS) {
      registry_.insert(
          {answer.id, request.device, address, bytes, request.kind, answer.backing, request.context, false, {}});
      // Small ones are no address to the launch path: nothing is decided about them.
      if (bytes >= policy::kChunk && !is_handle(address)) launch_path().addresses.insert(address, bytes, answer.id);
    }
    const policy::Address visible = is_handle(address) ? policy::Address{} : address;
    decide(policy::AllocationSettled{answer.id, visible, bytes, answer.backing, {static_cast<std::int32_t>(result)}},
           work);
  }
  carry_out(work);
  wait_for_room(work);
}

std::optional<policy::AllocationId> Session::begin_free(policy::Address address, std::uint64_t stream) {
  Work work;
  policy::AllocationId id;
  {
    std::unique_lock lock(mutex_);
    Registered* found = registry_.beginning(address);
    if (found == nullptr || found->freeing) return std::nullopt;
    const DeviceIndex device = found->device;
    room_.call_begins(lock, device, kWaitForMoves);
    found = registry_.beginning(address);
    if (found == nullptr || found->freeing || found->device != device) {  // freed while this one waited
      room_.call_ends(device);
      return std::nullopt;
    }
    found->freeing = true;
    if (found->spilled()) room_.free_begins(found->device);
    id = found->id;
    launch_path().addresses.remove(address);
    decide(policy::FreeRequested{id, stream_of(stream)}, work);
    room_.wait_for_use(lock, id, kWaitForFree);
  }
  carry_out(work);
  return id;
}

void Session::end_free(policy::AllocationId allocation, CUresult result) {
  Work work;
  {
    const std::unique_lock lock(mutex_);
    Registered* found = registry_.find(allocation);
    const std::optional<DeviceIndex> device = found != nullptr ? std::optional(found->device) : std::nullopt;
    const bool watched = found != nullptr && found->spilled();
    if (found != nullptr) {
      if (result == CUDA_SUCCESS) {
        registry_.remove(allocation);
      } else {
        found->freeing = false;
        if (found->bytes >= policy::kChunk && !is_handle(found->address))
          launch_path().addresses.insert(found->address, found->bytes, allocation);
      }
    }
    decide(policy::Freed{allocation, {static_cast<std::int32_t>(result)}}, work);
    if (watched) room_.free_ends(*device);
    if (device) room_.call_ends(*device);
  }
  carry_out(work);
}

void Session::mapped(policy::Address registered, policy::Address address) {
  Work work;
  {
    const std::unique_lock lock(mutex_);
    Registered* found = registry_.beginning(registered);
    if (found == nullptr || found->freeing) return;
    if (found->mapped) launch_path().addresses.remove(found->mapped);
    found->mapped = address;
    if (found->bytes >= policy::kChunk) launch_path().addresses.insert(address, found->bytes, found->id);
    decide(policy::Mapped{found->id, address}, work);
  }
  carry_out(work);
}

void Session::unmapped(policy::Address registered, policy::Address address) {
  Work work;
  {
    const std::unique_lock lock(mutex_);
    Registered* found = registry_.beginning(registered);
    // Of several mappings the last is the one that was told.
    if (found == nullptr || found->mapped != address) return;
    launch_path().addresses.remove(address);
    found->mapped = {};
    decide(policy::Mapped{found->id, {}}, work);
  }
  carry_out(work);
}

std::optional<Registered> Session::registered(policy::Address address) {
  const std::unique_lock lock(mutex_);
  const Registered* found = registry_.holding(address);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::optional<Bytes> Session::reported_total(DeviceIndex device, Bytes real_total) {
  const std::unique_lock lock(mutex_);
  const auto seen = devices_.find(device.value);
  if (settings_.mode == policy::ModeName::off || seen == devices_.end() || !seen->second.can_spill) return std::nullopt;
  const Bytes card =
      settings_.device_budget ? std::min(settings_.device_budget->of(real_total), real_total) : real_total;
  return settings_.report == policy::ReportMode::real ? card : card + host_total_;
}

std::optional<ReportedMemory> Session::reported_memory(DeviceIndex device, Bytes real_free, Bytes real_total) {
  const std::optional<Bytes> total = reported_total(device, real_total);
  if (!total) return std::nullopt;
  const std::unique_lock lock(mutex_);
  const policy::DeviceTotals totals = engine_.totals(device);
  const Bytes used = totals.plain + totals.managed + totals.reserved;
  ReportedMemory reported{total->saturating_minus(used), *total};
  if (settings_.report == policy::ReportMode::real) {
    const Bytes in_hbm = totals.plain + totals.reserved + totals.resident + totals.arriving;
    reported.free = std::min(real_free, totals.budget.saturating_minus(in_hbm));
  }
  reported.free = std::min(reported.free, reported.total);
  return reported;
}

std::vector<policy::AllocationId> Session::begin_context_end(CUcontext context) {
  Work work;
  std::vector<policy::AllocationId> going;
  {
    std::unique_lock lock(mutex_);
    drain(work);
    // Its modules go too, and their handles may be given to other kernels.
    launch_path().functions.forget_all();
    for (const policy::AllocationId id : registry_.made_in(context)) {
      Registered* found = registry_.find(id);
      if (found->freeing) continue;
      found->freeing = true;
      if (found->spilled()) room_.free_begins(found->device);
      room_.call_begins_at_once(found->device);
      going.push_back(id);
      launch_path().addresses.remove(found->address);
      decide(policy::FreeRequested{id, {}}, work);
    }
    for (const policy::AllocationId id : going) room_.wait_for_use(lock, id, kWaitForFree);
  }
  carry_out(work);
  return going;
}

void Session::end_context_end(std::span<const policy::AllocationId> allocations, CUresult result) {
  for (const policy::AllocationId id : allocations) end_free(id, result);
}

}  // namespace spillway::shim
