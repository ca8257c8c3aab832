// Names launches by their shape: (function, threads, pointer arguments) -> LaunchShapeId, so that a launch is 16 bytes
// in a trace and one number in the history.
//
// Pure, not thread-safe: it belongs to the thread that runs policy, for each launch of the program. A known shape costs
// one hash of its arguments and one comparison, and no allocation.
//
// Memory is bounded (LaunchShapeLimits; about 10 MiB by default). Shapes live in two generations: when the young one is
// full the old one is forgotten and the young one becomes old; a shape that is met again moves to the young one and
// keeps its id. So shapes in use stay; one that was forgotten comes back as new, under a new id. Ids are never reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/event.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

struct LaunchShapeLimits {
  std::size_t shapes = 16384;      // of each generation; rounded up to a power of two
  std::size_t arguments = 262144;  // of all shapes of a generation; 16 bytes each
};

class LaunchShapes {
 public:
  struct Answer {
    LaunchShapeId shape;
    bool is_new = false;  // a LaunchShapeSeen is due before the Launched
  };

  // Arguments beyond this many take no part in the name: a trace holds no more of them either.
  static constexpr std::size_t kMostArguments = 4096;

  explicit LaunchShapes(LaunchShapeLimits limits = {});

  Answer intern(FunctionId function, std::uint64_t threads, std::span<const PointerArgument> arguments);

  [[nodiscard]] std::size_t size() const { return young_.entries.size() + old_.entries.size(); }
  [[nodiscard]] std::uint64_t named() const { return last_id_; }  // ids given out since the start

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint64_t threads = 0;
    FunctionId function;
    LaunchShapeId shape;
    std::uint32_t first_argument = 0;
    std::uint32_t arguments = 0;
  };
  struct Slot {
    std::uint32_t tag = 0;    // high half of the hash
    std::uint32_t entry = 0;  // 1 + position in entries; 0: empty
  };
  struct Generation {
    std::vector<Slot> slots;  // open addressing, at most half full
    std::vector<Entry> entries;
    std::vector<PointerArgument> arguments;
  };
  struct Key {
    FunctionId function;
    std::uint64_t threads = 0;
    std::span<const PointerArgument> arguments;
    std::uint64_t hash = 0;
  };

  [[nodiscard]] static const Entry* find(const Generation& generation, const Key& key);
  void insert(const Key& key, LaunchShapeId shape);
  void start_generation();

  LaunchShapeLimits limits_;
  Generation young_;
  Generation old_;
  std::uint32_t last_id_ = 0;
};

}  // namespace spillway::policy
