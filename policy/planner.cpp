#include "policy/planner.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

// Exchanges are carried out in calls of this size (docs/driver_facts.md, "Moving pages").
constexpr Bytes kBatch = 32_MiB;
// Memory that lives less than an iteration is written once and read once, at least, forward and backward.
constexpr double kReserveCrossings = 4;

double bytes_of(const Piece& piece) { return static_cast<double>(piece.bytes.count()); }

// Cuts the piece that is next to leave, if it holds chunks more than are `missing`; its rest is next after it.
void keep_the_rest(std::vector<Piece>& pieces, std::vector<std::uint32_t>& inside, std::size_t out, Bytes missing) {
  Piece& leaving = pieces[inside[out]];
  const auto needed = static_cast<std::uint32_t>((missing.count() + kChunk.count() - 1) / kChunk.count());
  if (needed == 0 || needed >= leaving.range.count) return;
  Piece rest = leaving;
  rest.range.first.value += needed;
  rest.range.count -= needed;
  rest.bytes -= kChunk * needed;
  leaving.range.count = needed;
  leaving.bytes = kChunk * needed;
  inside.insert(inside.begin() + static_cast<std::ptrdiff_t>(out) + 1, static_cast<std::uint32_t>(pieces.size()));
  pieces.push_back(rest);
}

double out_seconds(const Piece& piece, const CostTable& costs) {
  return bytes_of(piece) / (piece.host_pages ? costs.move_out : costs.move_out_first);
}

}  // namespace

double rank(const Piece& piece) {
  switch (piece.pinned) {
    case Piece::Pinned::in_hbm:
      return 1e30;
    case Piece::Pinned::on_host:
      return -1;
    case Piece::Pinned::no:
      break;
  }
  constexpr double kBeforeOthers = 1e-3, kAfterOthers = 1e3;
  switch (piece.evict) {
    case EvictClass::first:
      return piece.crossings * kBeforeOthers;
    case EvictClass::last:
      return piece.crossings * kAfterOthers;
    case EvictClass::normal:
      break;
  }
  return piece.crossings;
}

double worth(const Piece& piece, const CostTable& costs) { return piece.crossings / costs.link_in; }

float shown_worth(const Piece& piece, const CostTable& costs) {
  return static_cast<float>(worth(piece, costs) * 1e6 * (1 << 20));
}

Exchange plan_exchange(std::vector<Piece>& pieces, const PlannerLimits& limits, const CostTable& costs) {
  std::vector<std::uint32_t> inside, outside;
  for (std::uint32_t i = 0; i < pieces.size(); ++i) (pieces[i].in_hbm ? inside : outside).push_back(i);
  // Ties are broken by position in the list, so that the same input gives the same plan everywhere.
  std::stable_sort(inside.begin(), inside.end(),
                   [&pieces](std::uint32_t a, std::uint32_t b) { return rank(pieces[a]) < rank(pieces[b]); });
  std::stable_sort(outside.begin(), outside.end(),
                   [&pieces](std::uint32_t a, std::uint32_t b) { return rank(pieces[a]) > rank(pieces[b]); });
  Exchange plan;
  Bytes room = limits.room;
  Bytes host_room = limits.host_room;
  std::size_t next_out = 0;
  // What a rule sends out goes whether or not its room is needed.
  for (; next_out < inside.size() && pieces[inside[next_out]].pinned == Piece::Pinned::on_host; ++next_out) {
    const Piece& piece = pieces[inside[next_out]];
    if (!piece.host_pages && piece.bytes > host_room) break;
    if (!piece.host_pages) host_room -= piece.bytes;
    plan.out.push_back(inside[next_out]);
    room += piece.bytes;
  }
  // The reserve is used as often as its memory comes and goes: what is used less often makes room for it.
  for (; room < limits.reserve && next_out < inside.size(); ++next_out) {
    const Piece& piece = pieces[inside[next_out]];
    if (piece.pinned == Piece::Pinned::in_hbm || piece.crossings >= kReserveCrossings) break;
    if (!piece.host_pages && piece.bytes > host_room) break;
    if (!piece.host_pages) host_room -= piece.bytes;
    plan.out.push_back(inside[next_out]);
    room += piece.bytes;
  }
  room = room.saturating_minus(limits.reserve);
  for (const std::uint32_t in : outside) {
    const Piece piece = pieces[in];
    if (piece.pinned == Piece::Pinned::on_host) break;
    const double gain = worth(piece, costs) * bytes_of(piece);
    double loss = 0, spent = costs.bring_in(piece.bytes, std::max(piece.bytes, kBatch));
    Bytes freed = room, pages;
    std::size_t out = next_out;
    while (freed < piece.bytes && out < inside.size() && pieces[inside[out]].pinned != Piece::Pinned::in_hbm) {
      keep_the_rest(pieces, inside, out, piece.bytes - freed);
      const Piece& leaving = pieces[inside[out]];
      if (!leaving.host_pages) pages += leaving.bytes;
      loss += worth(leaving, costs) * bytes_of(leaving);
      spent += out_seconds(leaving, costs);
      freed += leaving.bytes;
      ++out;
    }
    if (freed < piece.bytes || pages > host_room) continue;
    if (piece.pinned == Piece::Pinned::no && gain - loss <= spent / limits.horizon) {
      if (gain <= 0) break;
      continue;  // a smaller piece may still fit into the room that is left
    }
    for (; next_out < out; ++next_out) plan.out.push_back(inside[next_out]);
    plan.in.push_back(in);
    host_room -= pages;
    room = freed - piece.bytes;
    plan.seconds_saved += gain - loss;
    plan.seconds_spent += spent;
  }
  return plan;
}

}  // namespace spillway::policy
