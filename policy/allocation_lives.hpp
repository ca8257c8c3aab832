// What a replay knows of allocations' lives: when each was asked for and freed, in launches before it, and where its
// pages were at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/card.hpp"
#include "policy/event.hpp"
#include "policy/units.hpp"
#include "policy/use_found.hpp"

namespace spillway::policy {

// Where the pages of an allocation are at the end, or were when it was freed, and what was found of their use then.
struct FinalPlacement {
  AllocationId allocation;
  std::uint32_t order = 0;  // of the request, from 1
  Bytes bytes;
  Bytes in_hbm;
  Bytes on_host;
  UseFound found = UseFound::nothing;  // if decisions are kept
  bool took_turns = false;             // or made room for what did
};

// `launches`: how many there were before what is told.
class AllocationLives {
 public:
  struct Life {
    std::uint32_t order = 0;  // of the request, from 1
    std::uint64_t born = 0;
    std::optional<std::uint64_t> freed;
    UseFound found = UseFound::nothing;  // when its free was asked for: afterwards nobody knows it
  };

  void requested(AllocationId id, std::uint64_t launches);
  void takes_turns(AllocationId id) { took_turns_.insert(id); }
  // The life of what may have been there for half of all launches, else null: what was found of its use may be kept.
  Life* long_one(AllocationId id, std::uint64_t launches);
  // Before the card forgets it.
  void freed(AllocationId id, std::uint64_t launches, const Card& card);

  // Null: it was never asked for.
  [[nodiscard]] const Life* find(AllocationId id) const;
  // Of what the card has, by order.
  [[nodiscard]] std::vector<FinalPlacement> placements(const Card& card) const;
  // Of what was freed and had been there for half of `launches` or more, by order.
  [[nodiscard]] std::vector<FinalPlacement> freed_after_half(std::uint64_t launches) const;

 private:
  [[nodiscard]] std::optional<FinalPlacement> placement(AllocationId id, std::uint32_t order, const Card& card) const;

  std::vector<AllocationId> requests_;  // in order
  std::unordered_map<AllocationId, Life> lives_;
  std::set<AllocationId> took_turns_;
  std::vector<std::pair<FinalPlacement, std::uint64_t>> freed_;  // with how many launches they were there for
};

}  // namespace spillway::policy
