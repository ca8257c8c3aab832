#include "policy/crossings.hpp"

#include <algorithm>
#include <vector>

namespace spillway::policy {
namespace {

constexpr std::uint32_t kEnough = 2;   // times each way
constexpr double kMostCrossings = 64;  // beyond it something else made the kernel slow
// Weights of a launch in the mean of long times, once there are many: of one that is longer, and of one that is not.
constexpr double kLonger = 1.0 / 32;
constexpr double kShorter = 1.0 / 512;
// Less of it on the host, or more of it than in others, says nothing: the difference drowns in what times differ by
// anyway.
constexpr double kTellingShare = 0.25;
constexpr std::uint64_t kSameParts = 64;  // so little of it more or less on the host is the same

}  // namespace

std::optional<LaunchKind> launch_kind(const LaunchSite& site, const SpanMap& spans) {
  if (!site.function) return std::nullopt;
  LaunchKind kind{site.function, site.threads, {}};
  std::vector<SpanId> seen;
  for (const NamedPointer& pointer : site.pointers) {
    const SpanId span = spans.at(pointer.allocation, pointer.offset);
    if (spans.span(span).bytes == Bytes() || std::find(seen.begin(), seen.end(), span) != seen.end()) continue;
    seen.push_back(span);
    kind.bytes += spans.span(span).bytes;
  }
  if (seen.empty()) return std::nullopt;
  return kind;
}

std::size_t LaunchKindHash::operator()(const LaunchKind& kind) const {
  std::uint64_t hash = kind.function.value * 0x9E3779B97F4A7C15ULL;
  hash = (hash ^ kind.threads) * 0x9E3779B97F4A7C15ULL;
  hash = (hash ^ (hash >> 31U) ^ kind.bytes.count()) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(hash ^ (hash >> 29U));
}

void LearnedCrossings::timed(const LaunchKind& kind, Bytes on_host, Nanoseconds duration) {
  if (duration <= Nanoseconds() || kind.bytes == Bytes()) return;
  if (kinds_.size() >= kMostKinds && !kinds_.contains(kind)) return;
  Evidence& evidence = kinds_[kind];
  evidence.bytes = kind.bytes;
  const Bytes same(kind.bytes.count() / kSameParts);
  if (evidence.near.launches == 0 || on_host + same < evidence.near.on_host) {
    evidence.near = {1, duration, on_host};
  } else if (on_host <= evidence.near.on_host + same) {
    ++evidence.near.launches;
    evidence.near.shortest = std::min(evidence.near.shortest, duration);
    evidence.near.on_host = std::min(evidence.near.on_host, on_host);
  }
  const auto host = static_cast<double>(on_host.count());
  const double share = host / static_cast<double>(kind.bytes.count());
  if (share < kTellingShare) return;
  const auto time = static_cast<double>(duration.count());
  const double weight = evidence.long_time == 0 ? 1 : time > evidence.long_time ? kLonger : kShorter;
  evidence.long_time += weight * (time - evidence.long_time);
  evidence.long_bytes += weight * (host - evidence.long_bytes);
  const auto quarter = static_cast<std::size_t>(share * static_cast<double>(evidence.more.size()));
  add(evidence.more[std::min(quarter, evidence.more.size() - 1)], on_host, duration);
}

void LearnedCrossings::add(Times& times, Bytes on_host, Nanoseconds duration) {
  const auto product = [](Nanoseconds time, Bytes bytes) {
    return static_cast<double>(time.count()) * static_cast<double>(bytes.count());
  };
  if (times.launches++ > 0 && product(duration, times.on_host) >= product(times.shortest, on_host)) return;
  times.shortest = duration;
  times.on_host = on_host;
}

std::optional<double> LearnedCrossings::crossings(const Evidence& evidence, double time, double bytes,
                                                  const CostTable& costs) {
  if (evidence.near.launches < kEnough) return std::nullopt;
  const double more = bytes - static_cast<double>(evidence.near.on_host.count());
  if (more < kTellingShare * static_cast<double>(evidence.bytes.count())) return std::nullopt;
  const double excess = (time - static_cast<double>(evidence.near.shortest.count())) * 1e-9;
  return std::clamp(excess * costs.link_in / more, 0.0, kMostCrossings);
}

const LearnedCrossings::Times* LearnedCrossings::most_on_host(const Evidence& evidence) {
  const auto most = std::find_if(evidence.more.rbegin(), evidence.more.rend(),
                                 [](const Times& times) { return times.launches >= kEnough; });
  return most == evidence.more.rend() ? nullptr : &*most;
}

std::optional<double> LearnedCrossings::in_part_of(const LaunchKind& kind, const CostTable& costs) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end() || most_on_host(found->second) == nullptr) return std::nullopt;
  return crossings(found->second, found->second.long_time, found->second.long_bytes, costs);
}

std::optional<double> LearnedCrossings::of(const LaunchKind& kind, const CostTable& costs) const {
  const auto found = kinds_.find(kind);
  const Times* most = found == kinds_.end() ? nullptr : most_on_host(found->second);
  if (most == nullptr) return std::nullopt;
  return crossings(found->second, static_cast<double>(most->shortest.count()),
                   static_cast<double>(most->on_host.count()), costs);
}

std::optional<Nanoseconds> LearnedCrossings::shortest_time(const LaunchKind& kind, const CostTable& costs) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end() || found->second.near.launches == 0) return std::nullopt;
  if (found->second.near.on_host > Bytes() && !of(kind, costs)) return std::nullopt;
  return found->second.near.shortest;
}

std::size_t LearnedCrossings::known(const CostTable& costs) const {
  return static_cast<std::size_t>(std::count_if(kinds_.begin(), kinds_.end(),
                                                [&](const auto& entry) { return of(entry.first, costs).has_value(); }));
}

}  // namespace spillway::policy
