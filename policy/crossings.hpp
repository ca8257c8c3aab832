// Crossings learned from kernel times: how often the bytes of a launch cross the link when they are left on the host.
//
// A launch that was timed with little of what it touches on the host, best with nothing, and again with more, tells:
// crossings = (time of the one - time of the other) x link / (bytes on the host in the one - in the other). What is on
// the host in both says nothing: a library's workspace, of which a launch works on a part. So the least is compared
// with the most. Times are pooled over launches of one function with as many threads and as many bytes (the layers of a
// model), and the shortest counts, as whatever else is going on only makes a kernel slower. What one launch has on the
// host is taken to cross alike.
//
// A launch that reads a part of what it is told takes longer or shorter with where that part is, and its shortest time
// is that of a part which happened to be in HBM. For those a mean counts in which longer times weigh more: what it
// crosses while that part is on the host, also for some time after it was brought in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "policy/cost_table.hpp"
#include "policy/launch_book.hpp"
#include "policy/span_map.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// Launches whose times may be compared.
struct LaunchKind {
  FunctionId function;
  std::uint64_t threads = 0;
  Bytes bytes;  // all that it touches, plain memory left aside
  friend bool operator==(const LaunchKind&, const LaunchKind&) = default;
};
struct LaunchKindHash {
  std::size_t operator()(const LaunchKind& kind) const;
};
// Nothing for a graph, whose kernels are not told apart, and for a launch that touches no span.
std::optional<LaunchKind> launch_kind(const LaunchSite& site, const SpanMap& spans);

class LearnedCrossings {
 public:
  // One timed launch of this kind, while `on_host` of its bytes were read and written in place.
  void timed(const LaunchKind& kind, Bytes on_host, Nanoseconds duration);
  // Nothing without evidence: two times each way, at least.
  [[nodiscard]] std::optional<double> of(const LaunchKind& kind, const CostTable& costs) const;
  [[nodiscard]] std::optional<double> in_part_of(const LaunchKind& kind, const CostTable& costs) const;
  // With the least on the host that was seen, if that is nothing or it was seen with clearly more.
  [[nodiscard]] std::optional<Nanoseconds> shortest_time(const LaunchKind& kind, const CostTable& costs) const;
  [[nodiscard]] std::size_t known(const CostTable& costs) const;  // kinds with evidence

 private:
  static constexpr std::size_t kMostKinds = 1U << 14U;
  // Times of launches with about as much on the host: the shortest for each byte.
  struct Times {
    std::uint32_t launches = 0;
    Nanoseconds shortest;
    Bytes on_host;  // in that one
  };
  struct Evidence {
    Bytes bytes;                // of the kind
    Times near;                 // with the least on the host
    std::array<Times, 4> more;  // by quarters on the host, the first of which stays empty
    double long_time = 0;       // mean over all of `more` in which the longer weigh more, in nanoseconds
    double long_bytes = 0;      // on the host in them
  };
  static void add(Times& times, Bytes on_host, Nanoseconds duration);
  // Nanoseconds and bytes on the host of a launch, made into crossings.
  [[nodiscard]] static std::optional<double> crossings(const Evidence& evidence, double time, double bytes,
                                                       const CostTable& costs);
  // Of those with the most on the host of which there are enough.
  [[nodiscard]] static const Times* most_on_host(const Evidence& evidence);
  std::unordered_map<LaunchKind, Evidence, LaunchKindHash> kinds_;
};

}  // namespace spillway::policy
