// Memory handed out and taken back in the order of streams: arenas cut into blocks, best fit, neighbours joined. The
// state machine alone: no driver, no lock, no clock; managed_pools.hpp has those.
//
// A block that was freed carries a mark for each free in it: which stream it was freed in, and whether that stream is
// known to have come so far. A request of the same stream may have the block at once, as its work comes later anyway;
// any other may have it when the mark is done, or after waiting for it. Joined blocks carry the marks of all their
// parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/units.hpp"

namespace spillway::shim {

// A stream, as long as it exists: 0 is none, and equal to no stream.
using StreamKey = policy::Id<struct StreamKeyTag, std::uint64_t>;

// The place in a stream where memory was freed. `done` may be set by anybody, once the stream has come so far.
struct FreeMark {
  virtual ~FreeMark() = default;
  StreamKey stream;  // guarded by whoever guards the heap
  std::atomic<bool> done{false};
};
using FreeMarks = std::vector<std::shared_ptr<FreeMark>>;

class OrderedHeap {
 public:
  // Sizes are rounded up to this, so that tensors keep the alignment that drivers give.
  static constexpr policy::Bytes kGrain = policy::Bytes(64 * 1024);
  static policy::Bytes rounded(policy::Bytes bytes);

  enum class Wait { no, yes };
  struct Taken {
    policy::Address address;
    FreeMarks after;  // the stream must wait for these first
    FreeMarks marks;  // all it had
  };
  // The smallest free block that holds `bytes` and that `stream` may have, with waiting or without.
  std::optional<Taken> take(policy::Bytes bytes, StreamKey stream, Wait wait);
  // Gives back what `take` gave, unused, with the marks it had.
  void untake(const Taken& taken);

  void add(policy::Address arena, policy::Bytes bytes, FreeMarks marks = {});
  // Adds an arena and takes its first bytes, so that nobody comes between.
  policy::Address add_and_take(policy::Address arena, policy::Bytes arena_bytes, policy::Bytes bytes);

  // A free in three steps, as the driver is called in between: `begin_free` is false for what is no live block, or is
  // being freed already.
  bool begin_free(policy::Address address);
  void abandon_free(policy::Address address);
  void end_free(policy::Address address, std::shared_ptr<FreeMark> mark);  // null: nothing uses it any more

  // What is not known to be done yet; for asking the driver.
  [[nodiscard]] FreeMarks pending() const;
  [[nodiscard]] FreeMarks pending_of_empty() const;  // what keeps arenas without a live block from going
  // The stream is destroyed, and its name may be given to another.
  void stream_gone(StreamKey stream);

  struct Arena {
    policy::Address address;
    policy::Bytes bytes;
  };
  // Takes arenas without a live block out whose marks are done, the smallest first, until `keep` is not exceeded.
  std::vector<Arena> remove_empty(policy::Bytes keep);

  // The live block that holds the address: its beginning and what was asked for.
  [[nodiscard]] std::optional<std::pair<policy::Address, policy::Bytes>> block_at(policy::Address address) const;
  [[nodiscard]] policy::Bytes reserved() const { return reserved_; }
  [[nodiscard]] policy::Bytes used() const { return used_; }
  [[nodiscard]] policy::Bytes reserved_peak() const { return reserved_peak_; }
  [[nodiscard]] policy::Bytes used_peak() const { return used_peak_; }
  void reset_reserved_peak() { reserved_peak_ = reserved_; }
  void reset_used_peak() { used_peak_ = used_; }
  [[nodiscard]] bool has_empty() const;
  [[nodiscard]] std::string check_invariants() const;

 private:
  enum class Life : std::uint8_t { free, live, freeing };
  struct Block {
    policy::Bytes bytes;
    policy::Bytes asked;  // of a live one
    Life life = Life::free;
    FreeMarks marks;
  };
  using Blocks = std::map<std::uint64_t, Block>;

  Blocks::iterator take_from(Blocks::iterator block, policy::Bytes bytes);
  void make_free(Blocks::iterator block);
  Blocks::iterator join(Blocks::iterator left, Blocks::iterator right);
  [[nodiscard]] bool begins_arena(std::uint64_t address) const { return arenas_.contains(address); }
  [[nodiscard]] bool empty(std::uint64_t arena, policy::Bytes bytes) const;

  Blocks blocks_;                                              // all, by address; those of an arena cover it
  std::set<std::pair<policy::Bytes, std::uint64_t>> by_size_;  // the free ones
  std::map<std::uint64_t, policy::Bytes> arenas_;
  policy::Bytes reserved_, used_, reserved_peak_, used_peak_;
};

}  // namespace spillway::shim
