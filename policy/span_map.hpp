// The parts of allocations that the program uses as one thing. Caching allocators hand out many tensors from one driver
// allocation and never tell us; but every tensor shows its start as a pointer sooner or later. Each such pointer is a
// cut; a span reaches from its cut to the next one. An extent learned from a copy or fill makes a use reach over later
// cuts.
//
// Cuts lie on a grid of 64 KiB: residency is kept in chunks of 2 MiB, so finer cuts would only cost memory. A cut that
// has not been used for a while is aged out, because the allocator has given its memory to another tensor since.
// Memory: at most `limit` spans of about 48 bytes (3 MiB by default); at the limit nothing is cut and uses go to the
// enclosing span. Ids are reused after a span is gone: who keeps one compares version() or Span.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/units.hpp"

namespace spillway::policy {

using SpanId = Id<struct SpanTag, std::uint32_t>;  // counts from 1
using Epoch = Id<struct EpochTag, std::uint32_t>;  // the owner's clock of ageing: iterations, or stretches of launches

inline constexpr Bytes kSpanGrid = Bytes(std::uint64_t{64} << 10);

struct Span {
  AllocationId allocation;
  Bytes offset;
  Bytes bytes;
  friend bool operator==(const Span&, const Span&) = default;
};

class SpanMap {
 public:
  explicit SpanMap(std::size_t limit = std::size_t{1} << 16) : limit_(limit) {}

  // A new allocation is one span. Adding a known one, or nothing, is ignored.
  void add(AllocationId allocation, Bytes bytes);
  void remove(AllocationId allocation);

  // Cuts at `offset` if there is no cut yet; marks the spans used. Appends the spans that the use covers to `out`.
  // `extent`: bytes that the use is known to reach, zero if unknown (then the last known extent of the cut counts).
  void touch(AllocationId allocation, Bytes offset, Bytes extent, Epoch epoch, std::vector<SpanId>& out);

  // Marks a span used without looking it up again.
  void mark(SpanId span, Epoch epoch);

  // Removes cuts last used before `oldest`; their bytes go to the span before. Returns how many went.
  std::size_t age(Epoch oldest);

  // The span that holds this byte; none if there is no such allocation or byte.
  [[nodiscard]] SpanId at(AllocationId allocation, Bytes offset) const;
  // A span that is gone has no allocation and no bytes.
  [[nodiscard]] Span span(SpanId id) const;
  [[nodiscard]] std::size_t size() const { return live_; }
  // Upper bound (exclusive) of id values, for arrays indexed by span.
  [[nodiscard]] std::size_t id_bound() const { return slots_.size(); }
  // Changes whenever a span appears, goes or changes its size.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  // In order of offset; appended to `out`.
  void spans_of(AllocationId allocation, std::vector<SpanId>& out) const;

  [[nodiscard]] std::string check_invariants() const;

 private:
  struct Cut {
    std::uint64_t offset = 0;
    std::uint64_t extent = 0;
    SpanId id;
  };
  struct Block {
    std::uint64_t bytes = 0;
    std::vector<Cut> cuts;  // sorted; the first is at 0 and never ages
  };
  struct Slot {
    AllocationId allocation;
    Epoch used;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  SpanId make(AllocationId allocation, std::uint64_t offset, std::uint64_t bytes, Epoch epoch);
  void drop(SpanId id);

  std::unordered_map<AllocationId, Block> blocks_;
  std::vector<Slot> slots_{1};  // by id; slot 0 is no span
  std::vector<SpanId> unused_;
  std::size_t limit_;
  std::size_t live_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace spillway::policy
