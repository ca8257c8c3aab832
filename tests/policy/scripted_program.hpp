// A program, a driver and an engine in one, for tests: calls become events, decisions are carried out at once or when
// the test says, and a plain second set of books (the "card") says what HBM would really hold.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policy/engine.hpp"

namespace spillway::policy::testing {

class ScriptedProgram {
 public:
  ScriptedProgram(Settings settings, Bytes card, Bytes host, std::vector<Rule> rules = {})
      : engine_(std::move(settings), std::move(rules)) {
    send(DeviceSeen{{0}, {}, card, card, true, "Scripted"});
    send(HostMemorySeen{host});
  }

  // The address, or none if policy refused. `result` is what the driver says.
  Address allocate(Bytes bytes, AllocationKind kind = AllocationKind::linear, DriverResult result = {}) {
    const AllocationId id{++last_allocation_};
    send(AllocationRequested{id, {0}, bytes, kind, {}, {}, false});
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
    }
    send(AllocationSettled{id, result.ok() ? address : Address{}, bytes, backing, result});
    finish_blocking();
    return result.ok() ? address : Address{};
  }

  void free(Address address) {
    const AllocationId id = ids_.at(address);
    send(FreeRequested{id, {}});
    std::erase_if(open_, [&](const Decision& d) { return std::get<MoveRange>(d.body).allocation == id; });
    std::erase_if(on_card_, [&](const auto& chunk) { return chunk.first.first == id; });
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
  }

  void pass(Nanoseconds time) { now_ = now_ + time; }

  // Carries out one open move (the oldest), or all of them.
  void finish_one(MoveOutcome outcome = MoveOutcome::done) {
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
    }
  }

  // Bytes of managed chunks that the card would hold by the moves carried out so far.
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
  [[nodiscard]] AllocationId id(Address address) const { return ids_.at(address); }
  [[nodiscard]] Backing backing(Address address) const { return backing_.at(ids_.at(address)); }
  [[nodiscard]] const std::vector<Decision>& decisions() const { return all_; }
  [[nodiscard]] const std::vector<Decision>& last() const { return last_; }
  [[nodiscard]] std::size_t open_moves() const { return open_.size(); }
  [[nodiscard]] DeviceTotals totals() const { return engine_.totals({0}); }
  Engine& engine() { return engine_; }

 private:
  void finish_blocking() {
    for (;;) {
      const auto move = std::find_if(open_.begin(), open_.end(), [](const Decision& decision) {
        return std::get<MoveRange>(decision.body).urgency == Urgency::blocking;
      });
      if (move == open_.end()) return;
      const Decision decision = *move;
      open_.erase(move);
      finish(decision, MoveOutcome::done);
    }
  }
  void finish(const Decision& decision, MoveOutcome outcome) {
    const auto& move = std::get<MoveRange>(decision.body);
    for (Bytes at = move.offset; outcome == MoveOutcome::done && at < move.offset + move.bytes; at += kChunk) {
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
  std::map<Address, AllocationId> ids_;
  std::map<AllocationId, Bytes> bytes_;
  std::map<AllocationId, Backing> backing_;
  std::map<std::pair<AllocationId, Bytes>, Bytes> on_card_;  // by offset of the chunk
  std::map<std::string, LaunchShapeId> shapes_;
  Nanoseconds now_;
  std::uint32_t last_allocation_ = 0;
  std::uint64_t next_address_ = 0x7f0000000000;
};

}  // namespace spillway::policy::testing
