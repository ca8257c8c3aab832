#include "tools/view/heat_map.hpp"

#include <algorithm>
#include <map>

namespace spillway::tools::view {

using namespace policy;

namespace {

constexpr Bytes kSmallestShown = 64_KiB;
constexpr std::size_t kMostPieces = 4096;            // of one allocation; past it the grid is made coarser
constexpr std::uint64_t kLargestBand = 1ULL << 50U;  // what is taller is damage

// First fit: the lowest place that is free, as an allocator would.
class Shelf {
 public:
  std::uint64_t take(std::uint64_t bytes) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < bytes) continue;
      const std::uint64_t from = gap->first;
      const std::uint64_t left = gap->second - bytes;
      gaps_.erase(gap);
      if (left > 0) gaps_[from + bytes] = left;
      return from;
    }
    const std::uint64_t from = top_;
    top_ += bytes;
    return from;
  }
  void give_back(std::uint64_t from, std::uint64_t bytes) {
    auto [gap, inserted] = gaps_.emplace(from, bytes);
    if (!inserted) return;
    if (const auto next = std::next(gap); next != gaps_.end() && from + bytes == next->first) {
      gap->second += next->second;
      gaps_.erase(next);
    }
    if (gap == gaps_.begin()) return;
    const auto before = std::prev(gap);
    if (before->first + before->second != from) return;
    before->second += gap->second;
    gaps_.erase(gap);
  }
  [[nodiscard]] std::uint64_t top() const { return top_; }

 private:
  std::map<std::uint64_t, std::uint64_t> gaps_;
  std::uint64_t top_ = 0;
};

// Fills the places of `rows`, counted from the band's bottom; returns its height.
std::uint64_t stack_band(const std::vector<ListedAllocation>& allocations, const std::vector<Row>& rows,
                         std::vector<StackPlace>& places) {
  Shelf shelf;
  std::multimap<Nanoseconds, Row> ends;
  for (const Row row : rows) {  // in order of time
    const ListedAllocation& allocation = allocations[row];
    while (!ends.empty() && ends.begin()->first <= allocation.asked) {
      const Row gone = ends.begin()->second;
      shelf.give_back(places[gone].from, allocations[gone].bytes.count());
      ends.erase(ends.begin());
    }
    if (shelf.top() > kLargestBand) return shelf.top();
    places[row] = {true, shelf.take(allocation.bytes.count())};
    if (allocation.freed) ends.emplace(*allocation.freed, row);
  }
  return shelf.top();
}

void cut_one(const ListedAllocation& allocation, Row row, const std::vector<ViewMove>& moves,
             const std::vector<std::uint32_t>& own, std::vector<Piece>& pieces) {
  std::vector<std::uint64_t> cuts = {0};
  const std::uint64_t size = allocation.bytes.count();
  for (const std::uint32_t i : own) {
    cuts.push_back(std::min(size, moves[i].offset.count()));
    cuts.push_back(std::min(size, (moves[i].offset + moves[i].bytes).count()));
  }
  const auto tidy = [&cuts] {
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  };
  tidy();
  for (Bytes grid = kChunk; cuts.size() > kMostPieces; grid += grid) {
    for (std::uint64_t& cut : cuts) cut -= cut % grid.count();
    tidy();
  }
  if (cuts.size() > 1 && cuts.back() >= size) cuts.pop_back();
  const std::size_t first = pieces.size();
  for (const std::uint64_t cut : cuts) pieces.push_back({row, Bytes(cut), {}});
  for (const std::uint32_t i : own) {
    const ViewMove& move = moves[i];
    const std::uint64_t end = (move.offset + move.bytes).count();
    auto cut = std::lower_bound(cuts.begin(), cuts.end(), move.offset.count());
    for (; cut != cuts.end() && *cut < end; ++cut) {
      Piece& piece = pieces[first + static_cast<std::size_t>(cut - cuts.begin())];
      const Placement now = piece.changes.empty() ? Placement::unpopulated : piece.changes.back().to;
      if (now != move.to) piece.changes.push_back({move.end, move.to, i});
    }
  }
}

}  // namespace

StackLayout stack(const std::vector<ListedAllocation>& allocations) {
  constexpr std::size_t kPlain = kSpanClassNames.size();
  // From the bottom: what a person looks for first; unknown and plain on top.
  constexpr std::array<std::size_t, kPlain + 1> kOrder = {1, 2, 4, 3, 5, 6, 0, kPlain};
  std::array<std::vector<Row>, kPlain + 1> rows;
  for (Row row = 0; row < allocations.size(); ++row) {
    const ListedAllocation& each = allocations[row];
    if (!each.settled || each.kind == AllocationKind::imported || each.bytes == Bytes()) continue;
    if (each.backing == Backing::device && each.bytes < kSmallestShown) continue;
    const bool plain = each.backing == Backing::device;
    rows[plain ? kPlain : each.said.most()].push_back(row);
  }
  StackLayout layout;
  layout.places.resize(allocations.size());
  std::uint64_t bottom = 0;
  for (const std::size_t band : kOrder) {
    if (rows[band].empty()) continue;
    const std::uint64_t height = stack_band(allocations, rows[band], layout.places);
    for (const Row row : rows[band]) layout.places[row].from += bottom;
    layout.bands.push_back({band == kPlain ? "plain" : std::string(kSpanClassNames[band]), bottom, bottom + height});
    bottom += height;
  }
  return layout;
}

std::vector<Piece> cut_into_pieces(const std::vector<ListedAllocation>& allocations,
                                   const std::vector<ViewMove>& moves) {
  std::vector<std::vector<std::uint32_t>> by_row(allocations.size());
  for (std::uint32_t i = 0; i < moves.size(); ++i) {
    if (moves[i].outcome == MoveOutcome::done) by_row[moves[i].row].push_back(i);
  }
  std::vector<Piece> pieces;
  for (Row row = 0; row < allocations.size(); ++row) {
    if (!by_row[row].empty()) cut_one(allocations[row], row, moves, by_row[row], pieces);
  }
  return pieces;
}

Json heat_map_json(const std::vector<ListedAllocation>& allocations, const std::vector<ViewMove>& moves,
                   Blocks& blocks) {
  const StackLayout layout = stack(allocations);
  Column from;
  for (const StackPlace& place : layout.places) {
    from.add(place.shown ? static_cast<std::int64_t>(place.from) : -1);
  }
  Column row, offset, first, time, to, move;
  std::uint64_t position = 0;
  for (const Piece& piece : cut_into_pieces(allocations, moves)) {
    row.add(piece.row);
    offset.add(piece.offset.count());
    first.add(position);
    position += piece.changes.size();
    for (const PieceChange& change : piece.changes) {
      time.add(change.time.count());
      to.add(static_cast<std::uint32_t>(change.to));
      move.add(change.move);
    }
  }
  Json bands = Json::array();
  for (const StackBand& band : layout.bands) {
    bands.push_back({{"name", band.name}, {"from", band.from}, {"to", band.to}});
  }
  return {{"places", blocks.add({{"from", &from}})},
          {"pieces", blocks.add({{"allocation", &row}, {"offset", &offset}, {"first", &first}})},
          {"changes", blocks.add({{"time", &time}, {"to", &to}, {"move", &move}})},
          {"bands", bands}};
}

}  // namespace spillway::tools::view
