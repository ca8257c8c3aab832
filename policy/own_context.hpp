// What Spillway's own context, in which pages are moved, takes of a card before that can be measured: rather too much,
// as a budget that it does not fit into is not to be broken. On an H200 it was 338 to 392 MiB (docs/driver_facts.md);
// a smaller card has fewer multiprocessors to keep stacks for.
#pragma once

#include <algorithm>

#include "policy/units.hpp"

namespace spillway::policy {

inline constexpr Bytes kLargestOwnContext{std::uint64_t{392} << 20U};

inline Bytes own_context_estimate(Bytes card) { return std::min(Bytes(card.count() / 32), kLargestOwnContext); }

}  // namespace spillway::policy
