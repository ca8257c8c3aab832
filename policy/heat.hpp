// Which parts of a sparse range are used. A launch names a pool (a paged cache, an embedding, experts) as a whole;
// which chunks of it are read stands in tables that nobody shows us. So a few chunks on the host are unmapped on
// purpose. The first use of such a *probe* is one fault, which CUPTI tells by address and which moves nothing.
//
// Ranges are cut into blocks of 4 to 16 chunks with one probe each; what a probe tells holds for its block. Ranges that
// the same arguments of the same functions name (the layers of a model) are a family, and share what is learned: where
// nearly all of the first probes are used, the family is dense and never probed again. Time is counted in epochs, which
// the owner makes long enough for everything hot to be used in each.
//
// The layers of a model often share one table, so that what is used lies at the same place in each: blocks of a family
// at the same place of equal ranges are a column. Where probes of a column have been used together often enough, one of
// them speaks for all.
//
// Cost: a probe that is used costs up to kHitCost, as the driver maps a chunk by 512 faults where it is read whole. So
// time that passes earns credit (kShare of it), a used probe spends kHitCost, and no more probes are set than would, by
// how often probes were used so far, spend what is there. At first that is taken to be all of them. What finds are
// expected to save earns back half of what they cost at most.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/residency.hpp"
#include "policy/span_class.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// Whole chunks that launches name, of which they may use a part.
struct SparseRange {
  ChunkRange chunks;
  std::uint64_t family = 0;  // equal: used by the same arguments of the same functions
  double crossings = 0;      // of all its bytes, in an iteration
  double uses = 0;           // of what is hot, in an iteration
  SpanClass span_class = SpanClass::unknown;
};

enum class Density : std::uint8_t { undecided, dense, sparse };

struct HeatBlock {
  ChunkRange range;
  std::uint64_t family = 0;
  double crossings = 0;
  double uses = 0;
  SpanClass span_class = SpanClass::unknown;
  std::uint64_t column = 0;
  enum class Seen : std::uint8_t { never, cold, hot } seen = Seen::never;
  std::optional<ChunkIndex> probe;  // set now
  std::uint32_t probes = 0;         // set so far
  std::uint32_t set_at = 0;         // epoch
  std::uint32_t hit_at = 0;         // epoch in which it was last known to be in use; 0: never
  std::uint32_t told_at = 0;        // epochs in which its own probe was used: the last
  std::uint32_t told_before = 0;    // and the one before
  std::uint32_t streak = 0;         // epochs since it began to be found in use, each time that it was asked
};

class Heat {
 public:
  static constexpr std::uint32_t kLeastBlock = 4;   // chunks
  static constexpr std::uint32_t kMostBlock = 16;   // 32 MiB: what a call carries at nearly the full rate
  static constexpr std::uint64_t kBlocks = 512;     // about so many in all, within these
  static constexpr std::uint32_t kFirstProbes = 8;  // tell whether a family is dense
  static constexpr std::uint32_t kFewProbes = 4;    // do where it has no more blocks
  static constexpr double kDense = 0.85;            // of the first probes
  static constexpr double kShare = 0.05;
  static constexpr Nanoseconds kHitCost = Nanoseconds(2'000'000);
  static constexpr std::int64_t kMostCredit = 32;  // hits

  static constexpr std::uint32_t kTogether = 4;   // columns; and so many times more than those that were not
  static constexpr std::size_t kMostAtOnce = 64;  // an advice takes some 50 us, on the thread that hears of launches

  enum class Where : std::uint8_t { host, hbm, elsewhere };

  // All sparse ranges there are now. Appends to `map` the probes of blocks that are gone.
  void watch(std::span<const SparseRange> ranges, std::vector<ChunkRange>& map);
  void forget(AllocationId allocation);
  // A fault mapped a page of this chunk. The block if that was its probe, which is none any more: its chunk is to be
  // mapped again.
  const HeatBlock* hit(AllocationId allocation, ChunkIndex chunk);
  // Others that are in use as well then, where one of a column speaks for all. Appends their probes to `map`.
  std::vector<const HeatBlock*> spread(const HeatBlock& hit, std::vector<ChunkRange>& map);
  void pass(Nanoseconds elapsed);
  // What was found is expected to save so much.
  void earn(Nanoseconds saved);
  // Sets probes as far as the credit goes, but for what is in `coming_in`; appends their chunks.
  void set_probes(const Residency& residency, std::span<const ChunkRange> coming_in, std::vector<ChunkRange>& unmap);
  // The block leaves HBM, taken to be cold. `probe` arrives on the host unmapped; not needed where another speaks for
  // it.
  void leave(const HeatBlock& block, std::optional<ChunkIndex> probe);
  [[nodiscard]] bool spoken_for(const HeatBlock& block) const;
  // The epoch ends. Appends to `map` the probes of families found to be dense, and those that others make needless.
  void next_epoch(std::vector<ChunkRange>& map);
  // No probe is set any more, of all or of what lies in this range; appends their chunks.
  void unset(std::vector<ChunkRange>& map);
  void unset(const ChunkRange& range, std::vector<ChunkRange>& map);

  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  [[nodiscard]] Density density(std::uint64_t family) const;
  // Of the first probes of its family, the share that was used; 1 if nothing is known.
  [[nodiscard]] double hot_share(std::uint64_t family) const;
  [[nodiscard]] std::uint32_t first_probes(std::uint64_t family) const;
  // Crossings of each byte in an iteration, were the block on the host and hot.
  [[nodiscard]] double hot_crossings(const HeatBlock& block) const;
  // Epochs for which a block in use is expected to stay so: as long again as it has been, or as blocks of its family
  // are usually, if that is longer.
  [[nodiscard]] double stays_hot(const HeatBlock& block) const;
  // Times what is known of a chunk's span: what this chunk is worth. 1 where nothing is known to be sparse.
  [[nodiscard]] double factor(AllocationId allocation, ChunkIndex chunk, Where at) const;
  // Used in this epoch or the one before, as far as is known.
  [[nodiscard]] bool hot(const HeatBlock& block) const;
  // On the host if any of it is, in HBM if all of it is.
  [[nodiscard]] static Where where(const HeatBlock& block, const Residency& residency);

  using Blocks = std::map<std::pair<AllocationId, std::uint32_t>, HeatBlock>;  // by first chunk
  [[nodiscard]] const Blocks& blocks() const { return blocks_; }
  [[nodiscard]] const HeatBlock* block(AllocationId allocation, ChunkIndex chunk) const;
  [[nodiscard]] std::size_t probes() const { return probes_; }  // set now
  // Whether there is anything to be learned.
  [[nodiscard]] bool worth_watching() const;

 private:
  struct Family {
    Density density = Density::undecided;
    std::uint32_t first = 0;      // first probes of blocks that have been seen through
    std::uint32_t first_hit = 0;  // of them, used
    std::uint32_t seen = 0;       // in this epoch
    std::uint32_t seen_hit = 0;
    bool no_more = false;        // blocks on the host that were never probed
    std::uint32_t together = 0;  // columns of which all probes were used in an epoch
    std::uint32_t apart = 0;     // and of which some were
    [[nodiscard]] bool columns_hold() const { return together >= kTogether && kTogether * apart <= together; }
    double rate = 1;  // of probes, in an epoch, that are used
    // How long blocks are in use: epochs between a hit and the next word of that block, and how often that was no.
    double lasted = 0;
    double ended = 0;
  };
  HeatBlock* find(AllocationId allocation, ChunkIndex chunk);
  void set_probe(HeatBlock& block, ChunkIndex chunk);
  void look_for_more(const Residency& residency);
  void seen_through(HeatBlock& block, bool used);
  std::optional<ChunkRange> drop_probe(HeatBlock& block);
  [[nodiscard]] std::optional<ChunkIndex> place_for_probe(const HeatBlock& block, const Residency& residency) const;
  [[nodiscard]] int order(const Blocks::value_type& entry) const;  // who gets a probe first; -1: nobody

  void find_columns();
  void compare_columns();
  [[nodiscard]] const std::vector<HeatBlock*>& column_of(const HeatBlock& block) const;
  [[nodiscard]] bool columns_hold(std::uint64_t family) const;

  Blocks blocks_;
  std::unordered_map<std::uint64_t, std::vector<HeatBlock*>> columns_;
  std::int64_t earnable_ = 0;  // of what probes have cost
  std::unordered_map<AllocationId, std::uint32_t> block_chunks_;
  std::map<std::uint64_t, Family> families_;
  std::uint32_t epoch_ = 1;
  std::size_t probes_ = 0;
  std::int64_t credit_ = kHitCost.count() * kFirstProbes;  // nanoseconds; below zero until what was spent is earned
};

}  // namespace spillway::policy
