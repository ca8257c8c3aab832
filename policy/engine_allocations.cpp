// Requests for memory: what it is made of, whether there is room, and its life.
#include <algorithm>
#include <utility>

#include "policy/engine_state.hpp"

namespace spillway::policy {
namespace {

// Below this the driver packs several allocations into one block, and spilling saves nothing.
constexpr Bytes kSmallest = kChunk;
// Plain growth sends managed pages out in batches: a call for each small allocation would be a call a microsecond. A
// 64th of the budget, within these.
constexpr Bytes kSmallestBatch = 2_MiB;
constexpr Bytes kLargestBatch = 32_MiB;
constexpr std::uint64_t kBatchShare = 64;
Bytes batch_of(Bytes budget) { return std::clamp(Bytes(budget.count() / kBatchShare), kSmallestBatch, kLargestBatch); }

}  // namespace

void Engine::State::on(const AllocationRequested& event) {
  Allocation* allocation = allocations.request(event);
  if (allocation == nullptr) {
    ++ignored;
    return;
  }
  if (!mode || event.kind == AllocationKind::program_managed || event.kind == AllocationKind::imported) {
    back(*allocation, event.kind == AllocationKind::program_managed ? Backing::managed : Backing::device,
         Placement::unpopulated, mode ? Reason::not_spillable : Reason::mode);
    return;
  }
  match(event, *allocation);
  if (event.kind == AllocationKind::stretchable) return back_stretchable(event, *allocation);
  Reason reason = Reason::fits;
  if (spills(event, devices[event.device.value], reason)) return back_managed(event, *allocation);
  if (reason != Reason::fits) return back_plain(event, *allocation, reason);
  // It could be plain, and would be if others left in time: that is no reason to refuse what can spill.
  if (promise_plain(event)) return back_managed(event, *allocation);
  back(*allocation, Backing::device, Placement::unpopulated, reason);
}

// What the policy file says about memory when it is asked for.
void Engine::State::match(const AllocationRequested& event, Allocation& allocation) {
  order = {order.value + 1};
  if (rules.empty()) return;
  const auto caller = callers.find(event.caller);
  const std::string_view library = caller == callers.end() ? std::string_view() : caller->second;
  allocation.rules = rules.allocation_rules(event, library, order);
  allocation.rule = rules.match_allocation(event, library, order);
  if (allocation.rule != nullptr) allocation.cause.rule = allocation.rule->number;
}

bool Engine::State::spills(const AllocationRequested& event, const Device& device, Reason& reason) const {
  const bool spillable = event.kind == AllocationKind::linear || event.kind == AllocationKind::pitched ||
                         event.kind == AllocationKind::pool_arena;
  const bool left_out = event.kind == AllocationKind::pool_arena && settings.spill_pools == Switch::off;
  if (!spillable || left_out || !device.can_spill) {
    reason = Reason::not_spillable;
    return false;
  }
  if (event.bytes < kSmallest) {
    reason = Reason::small;
    return false;
  }
  const Allocation* allocation = allocations.find(event.allocation);
  const Rule* rule = allocation == nullptr ? nullptr : allocation->rule;
  if (rule != nullptr && rule->action.backing) {
    reason = Reason::rule;
    return *rule->action.backing == Backing::managed;
  }
  if (settings.backing == BackingMode::device) {
    reason = Reason::mode;
    return false;
  }
  if (rule != nullptr && (rule->action.place == RulePlace::host || rule->action.place == RulePlace::stream))
    return true;
  if (settings.backing == BackingMode::managed || device.expected_spill) return true;
  const Bytes share = settings.plain_share.of(device.budget);
  return device.plain.taken() + event.bytes > share;
}

// Promises plain memory its place, or says why there is none.
std::optional<Engine::State::Lack> Engine::State::promise_plain(const AllocationRequested& event) {
  Device& device = devices[event.device.value];
  // Where nothing can spill, a budget would only take memory away: the program runs as without us.
  if (device.can_spill) {
    const Bytes ceiling = device.budget.saturating_minus(device.reserved);
    if (const Bytes fixed = fixed_with(event, device); fixed > ceiling) {
      return Lack{Reason::device_budget, fixed - ceiling};
    }
  }
  device.plain.promise(event.bytes);
  const Bytes missing = device.can_spill ? make_room(event.device) : Bytes();
  if (missing == Bytes()) return std::nullopt;
  device.plain.withdraw(event.bytes);
  // What would have to leave has no place to go to; or it is on its way to the driver, which is worth a wait.
  return Lack{host_room() < missing ? Reason::host_budget : Reason::device_budget, missing};
}

void Engine::State::back_plain(const AllocationRequested& event, Allocation& allocation, Reason reason) {
  if (const auto lack = promise_plain(event)) {
    return refuse(event, lack->reason, lack->missing, reason == Reason::rule ? allocation.cause.rule : 0);
  }
  back(allocation, Backing::device, Placement::unpopulated, reason);
}

// What the card would hold that cannot make room: what is moving right now cannot be sent out, and what is promised a
// place is not there yet.
Bytes Engine::State::fixed_with(const AllocationRequested& event, const Device& device) const {
  return device.plain.taken() + PlainMemory::most(event.bytes) + residency.held_by_moves(event.device) +
         device.managed_pending;
}

// Sends managed pages out until the plain memory that is promised has a place. What is still missing then, as the host
// has no room for them or they are being freed.
Bytes Engine::State::make_room(DeviceIndex index) {
  const Device& device = devices[index.value];
  const auto over = [&](Bytes leaves) {
    const Bytes held = residency.usage(index).held() + device.managed_pending;
    return (device.plain.taken() + device.reserved + held).saturating_minus(device.budget + leaves);
  };
  const Bytes wanted = over({});
  if (wanted == Bytes()) return {};
  const Bytes left_before = residency.leaving(index);
  mode->make_room(index, std::max(wanted, batch(device)), Mode::RoomFor::plain);
  return over(residency.leaving(index) - left_before);
}

// Only here, where the shim has had the chance to make the context before it asked.
void Engine::State::look_for_room_to_move(DeviceIndex index) {
  Device& device = devices[index.value];
  const bool refused = device.own_context == Device::OwnContext::refused;
  device.moves = device.moves || (!refused && lacking_to_move(device) == Bytes());
  if (device.moves || std::exchange(device.said_unmoved, true)) return;
  const std::string why = refused ? "the driver refused a context for moves"
                                  : "the budget has no room for a context for moves beside " +
                                        format_bytes(device.plain.taken()) + " that cannot leave";
  writer.note({}, {}, {}, "device " + std::to_string(index.value) + ": " + why + ", so what spills stays on the host",
              {});
}

void Engine::State::back_managed(const AllocationRequested& event, Allocation& allocation) {
  Device& device = devices[event.device.value];
  look_for_room_to_move(event.device);
  allocation.raw = mode->raw();
  Cause cause;
  const bool on_host = allocation.rule != nullptr && (allocation.rule->action.place == RulePlace::host ||
                                                      allocation.rule->action.place == RulePlace::stream);
  const Bytes room_now = room(event.device);
  Bytes inside = on_host ? Bytes() : mode->first_in_hbm(allocation, room_now, cause);
  // Where others leave instead, it spills as well.
  const Bytes beyond_room = event.bytes - inside;
  const bool may_spill = !settings.oom_first || refused_once;
  if (!on_host && beyond_room > Bytes() && device.moves && may_spill && mode->displaces(allocation, beyond_room))
    inside = mode->first_in_hbm(allocation, displace(event.device, beyond_room), cause);
  if (on_host) cause.reason = Reason::rule;
  const Bytes outside = event.bytes - inside;
  // Raw memory has no place yet: all that exists must fit in the window and the host together.
  const Bytes capacity = window(device) + host_limit();
  const Bytes managed = residency.usage(event.device).managed + event.bytes;
  const Bytes missing = allocation.raw ? managed.saturating_minus(capacity) : outside.saturating_minus(host_room());
  if (missing > Bytes()) {
    refuse(event, Reason::host_budget, missing);
    return;
  }
  // Raw memory that fits the window beside all that is there need not leave it.
  if (refuse_first(event, allocation.raw ? managed.saturating_minus(window(device)) : beyond_room)) return;
  allocation.planned_on_device = inside;
  // What is to come where others are leaving is promised nothing: they have left when it is settled, or it goes out.
  allocation.promised_on_device = std::min(inside, room_now);
  device.managed_pending += allocation.promised_on_device;
  const Placement raw_first = inside > Bytes() ? Placement::device : Placement::unpopulated;
  back(allocation, Backing::managed,
       allocation.raw ? raw_first : (inside > Bytes() ? Placement::device : Placement::host), cause.reason);
}

// A run of chunks leaves as a whole or not at all: no larger than the host has room for.
Bytes Engine::State::batch(const Device& device) const { return std::min(batch_of(device.budget), host_room()); }

// Sends others out for a new allocation; the room there is once they have left.
Bytes Engine::State::displace(DeviceIndex index, Bytes bytes) {
  const Bytes left_before = residency.leaving(index);
  mode->make_room(index, std::max(bytes, batch(devices[index.value])), Mode::RoomFor::managed);
  return room(index) + (residency.leaving(index) - left_before);
}

// memory.oom_first: true if this request is the one that has to fail, as `outside` of it would spill.
bool Engine::State::refuse_first(const AllocationRequested& event, Bytes outside) {
  const bool this_one = settings.oom_first && outside > Bytes() && !refused_once;
  refused_once = (refused_once || this_one) && outside > Bytes();
  if (this_one) refuse(event, Reason::oom_first, outside);
  return this_one;
}

// A map-style handle is device memory while the budget lasts, and host memory for good afterwards: what is mapped
// cannot be moved under a kernel that may be using it.
void Engine::State::back_stretchable(const AllocationRequested& event, Allocation& allocation) {
  const Device& device = devices[event.device.value];
  const RuleAction action = allocation.rule == nullptr ? RuleAction{} : allocation.rule->action;
  const bool by_rule = action.place == RulePlace::host || action.place == RulePlace::stream;
  const bool plain_only = action.backing == Backing::device || settings.backing == BackingMode::device;
  if (!device.can_spill || settings.spill_vmm == Switch::off || plain_only) {
    return back_plain(event, allocation, action.backing == Backing::device ? Reason::rule : Reason::not_spillable);
  }
  // As for plain memory: what managed pages hold can be sent out, unless it is moving. What is mapped cannot: a part of
  // the budget is left to what has to be on the device and comes later, if only a counter of eight bytes.
  const Bytes fixed = fixed_with(event, device) + batch_of(device.budget);
  const bool fits = !by_rule && !device.full && fixed <= device.budget.saturating_minus(device.reserved);
  if (fits && !promise_plain(event)) return back(allocation, Backing::device, Placement::unpopulated, Reason::fits);
  if (const Bytes missing = event.bytes.saturating_minus(host_room()); missing > Bytes()) {
    return refuse(event, Reason::host_budget, missing);
  }
  if (refuse_first(event, event.bytes)) return;
  host_pending += event.bytes;
  back(allocation, Backing::managed, Placement::host, by_rule ? Reason::rule : Reason::device_budget);
}

void Engine::State::back(Allocation& allocation, Backing backing, Placement first, Reason reason) {
  allocation.backing = backing;
  allocation.cause.reason = reason;
  writer.emit(BackAllocation{allocation.id, backing, first}, allocation.cause);
}

void Engine::State::refuse(const AllocationRequested& event, Reason reason, Bytes missing, std::uint16_t rule) {
  Cause cause;
  cause.reason = reason;
  cause.rule = rule;
  allocations.remove(event.allocation);
  writer.emit(RefuseAllocation{event.allocation, missing}, cause);
}

void Engine::State::on(const AllocationSettled& event) {
  Allocation* allocation = allocations.find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::requested) {
    ++ignored;
    return;
  }
  Device& device = devices[allocation->device.value];
  const bool spillable_kind = allocation->managed();
  const bool on_host = allocation->on_host_for_good();
  if (spillable_kind) {
    device.managed_pending -= allocation->promised_on_device;
  } else if (on_host) {
    host_pending -= allocation->bytes;
  } else if (allocation->counted() && mode) {
    device.plain.withdraw(allocation->bytes);
  }
  if (!event.result.ok()) {
    // The card holds less than the budget says (another process, or what cannot be counted): spill from here on.
    constexpr std::int32_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
    const bool device_full = event.result.code == kOutOfMemory && mode && !spillable_kind && !on_host;
    if (device_full && device.can_spill) device.expected_spill = true;
    if (device_full && allocation->kind == AllocationKind::stretchable) device.full = true;
    allocations.remove(event.allocation);
    return;
  }
  allocations.settle(event);
  if (on_host) {
    residency.add_on_host(allocation->id, allocation->device, allocation->bytes);
    return;
  }
  if (!spillable_kind) {
    if (allocation->counted())
      device.plain.add(block_address(allocation->kind, allocation->address), allocation->bytes);
    return;
  }
  residency.add(allocation->id, allocation->device, allocation->bytes);
  mode->settled(*allocation);
}

void Engine::State::on(const FreeRequested& event) {
  Allocation* allocation = allocations.find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::live) {
    ++ignored;
    return;
  }
  if (residency.moving(allocation->id)) writer.emit(CancelMoves{allocation->id}, allocation->cause);
  if (mode && allocation->managed()) mode->freeing(*allocation);
  allocation->life = AllocationLife::dying;
}

void Engine::State::on(const Freed& event) {
  Allocation* allocation = allocations.find(event.allocation);
  if (allocation == nullptr || allocation->life != AllocationLife::dying) {
    ++ignored;
    return;
  }
  if (!event.result.ok()) {
    allocation->life = AllocationLife::live;
    return;
  }
  if (residency.holds(allocation->id)) {
    residency.remove(allocation->id);
  } else if (allocation->counted()) {
    Device& device = devices[allocation->device.value];
    device.plain.remove(block_address(allocation->kind, allocation->address), allocation->bytes);
    device.full = false;
  }
  allocations.remove(event.allocation);
}

}  // namespace spillway::policy
