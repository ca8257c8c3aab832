// Where every piece of memory was, over time: allocations stacked in bands by class, cut into the pieces that moved as
// one, and each piece's changes of place.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/view/allocations.hpp"
#include "tools/view/moves.hpp"

namespace spillway::tools::view {

// Where an allocation is drawn: bytes from the bottom of the stack. Allocations that do not live at the same time may
// share a place; an allocation never changes it.
struct StackPlace {
  bool shown = false;
  std::uint64_t from = 0;
};

struct StackBand {
  std::string name;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

struct StackLayout {
  std::vector<StackPlace> places;  // by row
  std::vector<StackBand> bands;
};

// Plain memory is a band of its own, the others are classes. What is smaller than 64 KiB and plain is not shown.
StackLayout stack(const std::vector<ListedAllocation>& allocations);

struct PieceChange {
  policy::Nanoseconds time;
  policy::Placement to = policy::Placement::unpopulated;
  std::uint32_t move = 0;  // position in Moves::done()
};

// The piece reaches to the next one's offset, or to the end of its allocation.
struct Piece {
  Row row = 0;
  policy::Bytes offset;
  std::vector<PieceChange> changes;
};

// By allocation, then offset. Moves come in the order in which they ended.
std::vector<Piece> cut_into_pieces(const std::vector<ListedAllocation>& allocations,
                                   const std::vector<ViewMove>& moves);

Json heat_map_json(const std::vector<ListedAllocation>& allocations, const std::vector<ViewMove>& moves,
                   Blocks& blocks);

}  // namespace spillway::tools::view
