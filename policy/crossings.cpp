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
// Less of it on the host says nothing: the difference drowns in what times differ by anyway.
constexpr double kTellingShare = 0.25;

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
  const bool resident = on_host == Bytes();
  const auto host = static_cast<double>(on_host.count());
  if (!resident && host < kTellingShare * static_cast<double>(kind.bytes.count())) return;
  if (kinds_.size() >= kMostKinds && !kinds_.contains(kind)) return;
  Evidence& evidence = kinds_[kind];
  if (resident) {
    evidence.resident_time = evidence.resident == 0 ? duration : std::min(evidence.resident_time, duration);
    ++evidence.resident;
  } else {
    const auto time = static_cast<double>(duration.count());
    if (evidence.mapped == 0 ||
        time * evidence.mapped_bytes < static_cast<double>(evidence.mapped_time.count()) * host) {
      evidence.mapped_time = duration;
      evidence.mapped_bytes = host;
    }
    ++evidence.mapped;
    const double weight = evidence.mapped == 1 ? 1 : time > evidence.long_time ? kLonger : kShorter;
    evidence.long_time += weight * (time - evidence.long_time);
    evidence.long_bytes += weight * (host - evidence.long_bytes);
  }
}

std::optional<double> LearnedCrossings::crossings(const Evidence& evidence, double time, double bytes,
                                                  const CostTable& costs) {
  if (evidence.resident < kEnough || evidence.mapped < kEnough) return std::nullopt;
  const double excess = (time - static_cast<double>(evidence.resident_time.count())) * 1e-9;
  return std::clamp(excess * costs.link_in / bytes, 0.0, kMostCrossings);
}

std::optional<double> LearnedCrossings::in_part_of(const LaunchKind& kind, const CostTable& costs) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end()) return std::nullopt;
  return crossings(found->second, found->second.long_time, found->second.long_bytes, costs);
}

std::optional<double> LearnedCrossings::of(const LaunchKind& kind, const CostTable& costs) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end()) return std::nullopt;
  return crossings(found->second, static_cast<double>(found->second.mapped_time.count()), found->second.mapped_bytes,
                   costs);
}

std::optional<Nanoseconds> LearnedCrossings::resident_time(const LaunchKind& kind) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end() || found->second.resident == 0) return std::nullopt;
  return found->second.resident_time;
}

std::size_t LearnedCrossings::known(const CostTable& costs) const {
  return static_cast<std::size_t>(std::count_if(kinds_.begin(), kinds_.end(),
                                                [&](const auto& entry) { return of(entry.first, costs).has_value(); }));
}

}  // namespace spillway::policy
