// Which pieces of memory live in HBM. One question, asked once an iteration: given what each piece would cost if it
// stayed on the host, which exchange of pieces saves more than it costs to carry out?
//
// The answer is a list of exchanges from where things are now, not a new layout: so a plan that is good already changes
// nothing, equal pieces never swap, and a plan that is cut short is still better than none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policy/classes.hpp"
#include "policy/cost_table.hpp"
#include "policy/decision.hpp"
#include "policy/residency.hpp"
#include "policy/rule.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// Neighbouring chunks of one allocation that are used alike and are in the same place.
struct Piece {
  ChunkRange range;
  Bytes bytes;
  double crossings = 0;         // of each byte, in an iteration, if it stays on the host
  double most_crossings = 0;    // of a single use
  std::uint32_t first_use = 0;  // position in the iteration
  std::uint32_t last_use = 0;
  SpanClass span_class = SpanClass::unknown;
  bool in_hbm = false;
  bool host_pages = false;  // sending it out allocates no host pages
  enum class Pinned : std::uint8_t { no, in_hbm, on_host } pinned = Pinned::no;  // by a rule
  EvictClass evict = EvictClass::normal;  // by a rule: goes before, or after, what is worth the same and more
  std::uint16_t rule = 0;
  bool may_stream = true;               // by a rule, or as nothing forbids it
  std::uint32_t prefetch_distance = 0;  // by a rule: launches before its use at which it comes in, at least
};

struct PlannerLimits {
  Bytes room;           // bytes that may come in before anything leaves
  Bytes reserve;        // of it, kept free for memory that comes and goes within an iteration
  double horizon = 64;  // iterations over which the cost of an exchange must be earned back
  Bytes host_room = Bytes(~std::uint64_t{0});
};

// Order of worth, rules first: the lowest leaves first.
double rank(const Piece& piece);
// Seconds saved per iteration and byte by residency.
double worth(const Piece& piece, const CostTable& costs);
// The same as a Cause shows it: microseconds saved per iteration and MiB.
float shown_worth(const Piece& piece, const CostTable& costs);

struct Exchange {
  std::vector<std::uint32_t> out;  // indices of pieces, least worth first
  std::vector<std::uint32_t> in;   // most worth first; each fits once the pieces before it in `out` are gone
  double seconds_saved = 0;        // per iteration
  double seconds_spent = 0;        // once
  [[nodiscard]] bool empty() const { return out.empty() && in.empty(); }
};

// A piece of which only a part has to leave is split, and its rest appended to `pieces`.
Exchange plan_exchange(std::vector<Piece>& pieces, const PlannerLimits& limits, const CostTable& costs);

}  // namespace spillway::policy
