// One [[rule]] of a policy file: what it is for (match) and what shall happen (action). Plain data; RuleMatcher
// decides.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "policy/event.hpp"
#include "policy/span_class.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// The how-manieth request for memory of the run; counts from 1.
using AllocationOrder = Id<struct AllocationOrderTag, std::uint32_t>;

enum class RulePlace : std::uint8_t {
  automatic = 0,  // as if no rule were there; protects from the rules below
  device = 1,     // stays in HBM
  host = 2,       // stays on the host, read and written over the link
  stream = 3,     // on the host, brought in ahead of each use
};

enum class EvictClass : std::uint8_t { normal = 0, first = 1, last = 2 };

// All conditions must hold; one that is absent always holds.
struct RuleMatch {
  // Of the launch that touches the memory.
  std::string kernel;                    // glob; empty: any
  std::vector<std::uint16_t> arguments;  // parameter numbers, from 0; empty: any
  std::vector<SpanClass> classes;        // empty: any
  std::vector<StreamId> streams;         // empty: any; of the allocation, for stream-ordered memory not yet launched on
  // Of the allocation.
  Bytes size_least;
  Bytes size_most = Bytes(std::numeric_limits<std::uint64_t>::max());
  AllocationOrder order_first{1};
  AllocationOrder order_last{std::numeric_limits<std::uint32_t>::max()};
  std::string caller;                // glob on the calling library's path or file name; empty: any
  std::vector<DeviceIndex> devices;  // empty: any
  friend bool operator==(const RuleMatch&, const RuleMatch&) = default;

  // True if no launch is needed to know that the rule matches (streams aside).
  [[nodiscard]] bool known_at_allocation() const { return kernel.empty() && arguments.empty() && classes.empty(); }
};

// What is absent is left to the mode.
struct RuleAction {
  std::optional<RulePlace> place;
  std::optional<bool> read_only;                   // true: a promise that nothing writes it; may be duplicated
  std::optional<std::uint32_t> prefetch_distance;  // launches ahead of use
  std::optional<EvictClass> evict;
  std::optional<Backing> backing;
  friend bool operator==(const RuleAction&, const RuleAction&) = default;
};

struct Rule {
  std::uint16_t number = 0;  // 1-based position in the file, as in Cause::rule
  std::uint32_t line = 0;    // where it begins; 0: made, not read
  std::string name;
  RuleMatch match;
  RuleAction action;
  // `line` is where it was written, not what it says.
  friend bool operator==(const Rule& a, const Rule& b) {
    return a.number == b.number && a.name == b.name && a.match == b.match && a.action == b.action;
  }
};

// What a policy file may hold. The matcher keeps a bit per rule and allocation.
inline constexpr std::size_t kMostRules = 256;
inline constexpr std::uint16_t kLastArgument = 4095;  // a kernel has 32,764 bytes of parameters at most

}  // namespace spillway::policy
