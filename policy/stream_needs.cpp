#include "policy/stream_needs.hpp"

#include <algorithm>
#include <unordered_map>

#include "policy/chunk_parts.hpp"
#include "policy/crossings.hpp"

namespace spillway::policy {
namespace {

constexpr std::size_t kFewestStretches = 4;

double bytes_on_host(const Span& span, const Residency& residency) {
  if (!residency.holds(span.allocation)) return 0;
  const std::vector<Chunk>& chunks = residency.chunks(span.allocation);
  double sum = 0;
  each_chunk(span.offset, span.bytes, [&](std::uint32_t chunk, Bytes part) {
    if (chunk < chunks.size() && chunks[chunk].at == Placement::host) sum += static_cast<double>(part.count());
  });
  return sum;
}

}  // namespace

std::vector<LaunchTime> launch_times(const IterationProfile& profile, const Forecast& forecast, const SpanMap& spans,
                                     const Residency& residency, const LaunchKnowledge& known) {
  std::vector<LaunchTime> launches(profile.length().count());
  UseCrossings crossings(known, spans);
  for (const SpanId id : profile.spans()) {
    const Span span = spans.span(id);
    const double on_host = bytes_on_host(span, residency);
    const auto bytes = static_cast<double>(span.bytes.count());
    crossings.each(profile, id, [&](std::uint32_t position, double crossed) {
      launches[position].link += crossed * on_host / known.costs.link_in;
      launches[position].compute += std::min(crossed, 1.0) * bytes / known.costs.hbm;
    });
  }
  std::unordered_map<LaunchShapeId, double> measured;
  for (std::size_t position = 0; position < launches.size(); ++position) {
    const LaunchShapeId shape = forecast.shape_at({profile.first_launch().value + position});
    const auto [time, fresh] = measured.try_emplace(shape, 0.0);
    if (fresh) {
      const auto kind = launch_kind(known.book.site(shape), spans);
      const auto took = kind ? known.crossings.shortest_time(*kind, known.costs) : std::nullopt;
      if (took) time->second = static_cast<double>(took->count()) * 1e-9;
    }
    double& compute = launches[position].compute;
    compute = std::max(time->second > 0 ? time->second : compute, known.costs.launch);
  }
  return launches;
}

std::vector<std::uint32_t> cut_stretches(std::span<const LaunchTime> launches, double least) {
  const auto seconds = [](const LaunchTime& launch) { return std::max(launch.compute, launch.link); };
  double total = 0;
  for (const LaunchTime& launch : launches) total += seconds(launch);
  const auto count = static_cast<std::size_t>(std::min(total / least, static_cast<double>(kMostStretches)));
  if (count < kFewestStretches) return {};
  std::vector<std::uint32_t> starts{0};
  double sum = 0;  // of the latest
  for (std::uint32_t position = 0; position + 1 < launches.size() && starts.size() < count; ++position) {
    sum += seconds(launches[position]);
    if (sum < total / static_cast<double>(count)) continue;
    starts.push_back(position + 1);
    sum = 0;
  }
  if (starts.size() < kFewestStretches) return {};
  return starts;
}

std::vector<Stretch> stretch_times(std::span<const LaunchTime> launches, std::span<const std::uint32_t> starts) {
  std::vector<Stretch> stretches(starts.size());
  std::size_t k = 0;
  for (std::size_t position = 0; position < launches.size(); ++position) {
    while (k + 1 < starts.size() && starts[k + 1] <= position) ++k;
    const LaunchTime& launch = launches[position];
    stretches[k].compute += launch.compute;
    stretches[k].link += launch.link;
    stretches[k].stall += std::max(0.0, launch.link - launch.compute);
  }
  return stretches;
}

StreamNeeds::StreamNeeds(const IterationProfile& profile, const SpanMap& spans, UseCrossings& crossings,
                         std::span<const std::uint32_t> starts, const CostTable& costs) {
  for (const SpanId id : profile.spans()) {
    const Span span = spans.span(id);
    if (!span.allocation) continue;
    Seconds each{};  // of a byte
    crossings.each(profile, id, [&](std::uint32_t position, double crossed) {
      const auto next = std::upper_bound(starts.begin(), starts.end(), position);
      each[static_cast<std::size_t>(next - starts.begin()) - 1] += static_cast<float>(crossed / costs.link_in);
    });
    std::vector<Seconds>& chunks = chunks_[span.allocation];
    each_chunk(span.offset, span.bytes, [&](std::uint32_t chunk, Bytes part) {
      if (chunks.size() <= chunk) chunks.resize(chunk + std::size_t{1});
      const auto bytes = static_cast<float>(part.count());
      for (std::size_t k = 0; k < starts.size(); ++k) chunks[chunk][k] += each[k] * bytes;
    });
  }
}

const StreamNeeds::Seconds& StreamNeeds::of(AllocationId allocation, ChunkIndex chunk) const {
  static const Seconds nothing{};
  const auto found = chunks_.find(allocation);
  return found == chunks_.end() || chunk.value >= found->second.size() ? nothing : found->second[chunk.value];
}

double StreamNeeds::alike(const StreamNeeds& other) const {
  double in_both = 0, in_either = 0;
  const auto compare = [&](const Seconds& one, const Seconds& another) {
    for (std::size_t k = 0; k < one.size(); ++k) {
      in_both += std::min<double>(one[k], another[k]);
      in_either += std::max<double>(one[k], another[k]);
    }
  };
  for (const auto& [allocation, chunks] : chunks_) {
    for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) compare(chunks[chunk], other.of(allocation, {chunk}));
  }
  for (const auto& [allocation, chunks] : other.chunks_) {
    for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
      const auto mine = chunks_.find(allocation);
      if (mine == chunks_.end() || chunk >= mine->second.size()) compare({}, chunks[chunk]);
    }
  }
  return in_either > 0 ? in_both / in_either : 1;
}

}  // namespace spillway::policy
