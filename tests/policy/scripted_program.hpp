// A program, a driver and an engine in one, for tests: calls become events, decisions are carried out at once or when
// the test says, and a plain second set of books (the "card") says what HBM would really hold: by the moves carried
// out, and by the page faults of launches, which bring in what is neither in HBM nor mapped (AccessedBy).
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/engine.hpp"

namespace spillway::policy::testing {

class ScriptedProgram {
 public:
  enum class OwnContext : std::uint8_t { none, free_of_charge };
  ScriptedProgram(Settings settings, Bytes card, Bytes host, std::vector<Rule> rules = {},
                  OwnContext context = OwnContext::free_of_charge, const CostTable& costs = {})
      : engine_(std::move(settings), std::move(rules), costs) {
    send(DeviceSeen{{0}, {}, card, card, true, "Scripted"});
    send(HostMemorySeen{host});
    if (context == OwnContext::free_of_charge) send(DeviceReserved{{0}, {}, "a context that takes nothing"});
  }

  // The address, or none if policy refused. `result` is what the driver says.
  Address allocate(Bytes bytes, AllocationKind kind = AllocationKind::linear, DriverResult result = {},
                   DeviceIndex device = {}) {
    const AllocationId id{++last_allocation_};
    send(AllocationRequested{id, device, bytes, kind, {}, {}, false});
    Backing backing = Backing::device;
    bool refused = true;
    for (const Decision& decision : last_) {
      if (const auto* back = std::get_if<BackAllocation>(&decision.body)) backing = back->backing, refused = false;
    }
    if (refused) return {};
    finish_blocking();
    const Address address{next_address_};
    if (result.ok()) {
      next_address_ += (bytes.count() + kChunk.count() - 1) / kChunk.count() * kChunk.count() + kChunk.count();
      ids_[address] = id;
      bytes_[id] = bytes;
      backing_[id] = backing;
      if (backing == Backing::managed && kind != AllocationKind::stretchable) {
        pages_[id].resize((bytes.count() + kChunk.count() - 1) / kChunk.count());
      }
    }
    send(AllocationSettled{id, result.ok() ? address : Address{}, bytes, backing, result});
    finish_blocking();
    return result.ok() ? address : Address{};
  }

  // `outcome`: of its moves that are open.
  void free(Address address, MoveOutcome outcome = MoveOutcome::cancelled) {
    const AllocationId id = ids_.at(address);
    send(FreeRequested{id, {}});
    std::vector<Decision> its;
    std::copy_if(open_.begin(), open_.end(), std::back_inserter(its),
                 [&](const Decision& decision) { return std::get<MoveRange>(decision.body).allocation == id; });
    std::erase_if(open_, [&](const Decision& d) { return std::get<MoveRange>(d.body).allocation == id; });
    for (const Decision& decision : its) finish(decision, outcome);
    std::erase_if(on_card_, [&](const auto& chunk) { return chunk.first.first == id; });
    pages_.erase(id);
    send(Freed{id, {}});
    ids_.erase(address);
  }

  void launch(const std::vector<Address>& arguments, FunctionId function = {1}) {
    std::string key = std::to_string(function.value);
    for (const Address argument : arguments) key += "," + std::to_string(argument.value);
    auto [shape, fresh] = shapes_.try_emplace(key, LaunchShapeId{static_cast<std::uint32_t>(shapes_.size() + 1)});
    if (fresh) {
      LaunchShapeSeen seen{shape->second, function, 1024, {}};
      for (std::uint16_t i = 0; i < arguments.size(); ++i) seen.arguments.push_back({i, arguments[i]});
      send(seen);
    }
    send(Launched{shape->second, {}});
    finish_blocking();
    for (const Address argument : arguments) touch(std::prev(ids_.upper_bound(argument))->second);
  }

  // Into or out of the first `bytes` of an allocation, by the driver.
  void copy(Address to, Address from, Bytes bytes) {
    send(Copied{{}, CopyKind::device_to_device, to, from, bytes});
    finish_blocking();
    touch(ids_.at(to), bytes);
    touch(ids_.at(from), bytes);
  }
  void fill(Address address, Bytes bytes) {
    send(Filled{{}, address, bytes});
    finish_blocking();
    touch(ids_.at(address), bytes);
  }

  void pass(Nanoseconds time) { now_ = now_ + time; }

  // Carries out one open move (the oldest), or all of them.
  void finish_one() { finish_one(usual_); }
  void finish_one(MoveOutcome outcome) {
    if (open_.empty()) return;
    const Decision decision = open_.front();
    open_.pop_front();
    finish(decision, outcome);
  }
  void finish_all() {
    while (!open_.empty()) finish_one();
  }

  template <class Body>
  void send(Body body) {
    now_ = now_ + Nanoseconds(1000);
    const std::size_t before = all_.size();
    engine_.process({now_, EventBody(std::move(body))}, all_);
    last_.assign(all_.begin() + static_cast<std::ptrdiff_t>(before), all_.end());
    for (const Decision& decision : last_) {
      if (std::holds_alternative<MoveRange>(decision.body)) open_.push_back(decision);
      if (const auto* advice = std::get_if<AdviseRange>(&decision.body)) advise(*advice);
    }
  }

  // Bytes of managed chunks that the card would hold by what was carried out and touched so far.
  [[nodiscard]] Bytes on_card() const {
    Bytes total;
    for (const auto& [chunk, bytes] : on_card_) total += bytes;
    return total;
  }
  // Of one allocation.
  [[nodiscard]] Bytes on_card(Address address) const {
    Bytes total;
    for (const auto& [chunk, bytes] : on_card_) total += chunk.first == ids_.at(address) ? bytes : Bytes();
    return total;
  }
  [[nodiscard]] bool chunk_on_card(Address address, Bytes offset) const {
    return on_card_.contains({ids_.at(address), offset});
  }
  // What the driver answers to the next blocking moves; done where the list ends, or what `from_now_on` says.
  void answer_moves(std::deque<MoveOutcome> outcomes) { outcomes_ = std::move(outcomes); }
  void from_now_on(MoveOutcome outcome) { usual_ = outcome; }
  [[nodiscard]] Bytes bytes(Address address) const { return bytes_.at(ids_.at(address)); }
  [[nodiscard]] AllocationId id(Address address) const { return ids_.at(address); }
  [[nodiscard]] Backing backing(Address address) const { return backing_.at(ids_.at(address)); }
  [[nodiscard]] const std::vector<Decision>& decisions() const { return all_; }
  [[nodiscard]] const std::vector<Decision>& last() const { return last_; }
  [[nodiscard]] std::size_t open_moves() const { return open_.size(); }
  [[nodiscard]] DeviceTotals totals() const { return engine_.totals({0}); }
  Engine& engine() { return engine_; }

 private:
  static constexpr int kMostAtOnce = 100'000;

  struct Page {
    bool mapped = false;
    bool prefers_host = false;
    bool on_host = false;
  };

  void advise(const AdviseRange& advice) {
    const auto found = pages_.find(advice.allocation);
    if (found == pages_.end()) return;
    for (Bytes at = advice.offset; at < advice.offset + advice.bytes; at += kChunk) {
      Page& page = found->second.at(at.count() / kChunk.count());
      if (advice.advice == Advice::accessed_by) page.mapped = true;
      if (advice.advice == Advice::unset_accessed_by || advice.advice == Advice::probe) page.mapped = false;
      // A probe leaves the pages where they are (docs/driver_facts.md).
      if (advice.advice == Advice::prefer_host || advice.advice == Advice::probe) page.prefers_host = true;
      if (advice.advice == Advice::prefer_device || advice.advice == Advice::unset_preferred) page.prefers_host = false;
    }
  }
  // As the driver does it, all of the allocation or its first `bytes`. With a preferred location pages stay there.
  void touch(AllocationId id, Bytes bytes = Bytes(~std::uint64_t{})) {
    const auto found = pages_.find(id);
    if (found == pages_.end()) return;
    for (std::size_t i = 0; i < found->second.size(); ++i) {
      Page& page = found->second[i];
      const Bytes at = kChunk * i;
      if (at >= bytes) break;
      if (on_card_.contains({id, at}) || (page.on_host && page.mapped)) continue;
      page.on_host = page.prefers_host;
      if (!page.prefers_host) on_card_[{id, at}] = std::min(kChunk, bytes_.at(id) - at);
    }
  }

  void finish_blocking() {
    // Who asks for more in answer to each would do so for ever: the test sees that they are still open.
    for (int finished = 0; finished < kMostAtOnce; ++finished) {
      const auto move = std::find_if(open_.begin(), open_.end(), [](const Decision& decision) {
        return std::get<MoveRange>(decision.body).urgency == Urgency::blocking;
      });
      if (move == open_.end()) return;
      const Decision decision = *move;
      open_.erase(move);
      MoveOutcome outcome = usual_;
      if (!outcomes_.empty()) {
        outcome = outcomes_.front();
        outcomes_.pop_front();
      }
      finish(decision, outcome);
    }
  }
  void finish(const Decision& decision, MoveOutcome outcome) {
    const auto& move = std::get<MoveRange>(decision.body);
    for (Bytes at = move.offset; outcome == MoveOutcome::done && at < move.offset + move.bytes; at += kChunk) {
      pages_.at(move.allocation).at(at.count() / kChunk.count()).on_host = move.to != Placement::device;
      if (move.to == Placement::device) {
        on_card_[{move.allocation, at}] = std::min(kChunk, move.offset + move.bytes - at);
      } else {
        on_card_.erase({move.allocation, at});
      }
    }
    send(MoveFinished{decision.id, outcome, {}, Nanoseconds(1)});
  }

  Engine engine_;
  std::vector<Decision> all_;
  std::vector<Decision> last_;
  std::deque<Decision> open_;
  std::deque<MoveOutcome> outcomes_;
  MoveOutcome usual_ = MoveOutcome::done;
  std::map<Address, AllocationId> ids_;
  std::map<AllocationId, Bytes> bytes_;
  std::map<AllocationId, Backing> backing_;
  std::map<std::pair<AllocationId, Bytes>, Bytes> on_card_;  // by offset of the chunk
  std::map<AllocationId, std::vector<Page>> pages_;          // managed only
  std::map<std::string, LaunchShapeId> shapes_;
  Nanoseconds now_;
  std::uint32_t last_allocation_ = 0;
  std::uint64_t next_address_ = 0x7f0000000000;
};

}  // namespace spillway::policy::testing
