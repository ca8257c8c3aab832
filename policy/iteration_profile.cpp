#include "policy/iteration_profile.hpp"

#include <algorithm>
#include <unordered_set>

namespace spillway::policy {

void cut_stretch(const Forecast& forecast, const LaunchBook& book, SpanMap& spans, LaunchNumber first,
                 LaunchNumber last, Epoch now) {
  std::unordered_set<std::uint32_t> seen;
  std::vector<SpanUse> uses;
  for (std::uint64_t launch = first.value; launch <= last.value; ++launch) {
    const LaunchShapeId shape = forecast.shape_at({launch});
    if (!shape || !seen.insert(shape.value).second) continue;
    uses.clear();
    book.uses(shape, spans, now, uses);
  }
}

void IterationProfile::build(const Forecast& forecast, const LaunchBook& book, SpanMap& spans, LaunchNumber last,
                             LaunchCount length, Epoch now) {
  length_ = LaunchCount(std::min(length.count(), last.value));
  first_ = {last.value - length_.count() + 1};
  spans_.clear();
  uses_.clear();
  cut_stretch(forecast, book, spans, first_, last, now);

  struct Found {
    SpanId span;
    ProfiledUse use;
  };
  std::vector<Found> found;
  std::vector<SpanUse> uses;
  begin_.assign(spans.id_bound() + 1, 0);
  for (std::uint64_t launch = first_.value; launch <= last.value; ++launch) {
    const LaunchShapeId shape = forecast.shape_at({launch});
    if (!shape) continue;
    uses.clear();
    book.uses(shape, spans, now, uses);
    const auto position = static_cast<std::uint32_t>(launch - first_.value);
    for (const SpanUse& use : uses) {
      found.push_back({use.span, {position, use.shape, use.argument, use.columns}});
      ++begin_[use.span.value];
    }
  }
  std::uint32_t sum = 0;
  for (std::size_t id = 0; id < begin_.size(); ++id) {
    const std::uint32_t count = begin_[id];
    if (count != 0) spans_.push_back({static_cast<std::uint32_t>(id)});
    begin_[id] = sum;
    sum += count;
  }
  uses_.resize(sum);
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end());
  for (const Found& each : found) uses_[next[each.span.value]++] = each.use;
}

std::span<const ProfiledUse> IterationProfile::uses(SpanId span) const {
  if (span.value + std::size_t{1} >= begin_.size()) return {};
  return {uses_.data() + begin_[span.value], begin_[span.value + 1] - begin_[span.value]};
}

std::uint32_t IterationProfile::position(LaunchNumber launch) const {
  if (length_ == LaunchCount()) return 0;
  const std::uint64_t length = length_.count();
  const std::uint64_t distance = launch.value >= first_.value ? (launch.value - first_.value) % length
                                                              : length - 1 - (first_.value - launch.value - 1) % length;
  return static_cast<std::uint32_t>(distance);
}

LaunchCount IterationProfile::next_use(SpanId span, LaunchNumber launch) const {
  const auto all = uses(span);
  if (all.empty()) return kNever;
  const std::uint32_t now = position(launch);
  const auto next = std::upper_bound(all.begin(), all.end(), now,
                                     [](std::uint32_t at, const ProfiledUse& use) { return at < use.position; });
  if (next != all.end()) return LaunchCount(next->position - now);
  return LaunchCount(all.front().position + length_.count() - now);
}

LaunchCount IterationProfile::hull(SpanId span) const {
  const auto all = uses(span);
  if (all.empty()) return {};
  std::uint64_t pause = all.front().position + length_.count() - all.back().position;
  for (std::size_t i = 1; i < all.size(); ++i) {
    pause = std::max<std::uint64_t>(pause, all[i].position - all[i - 1].position);
  }
  return LaunchCount(length_.count() - std::min(pause, length_.count()));
}

double stretch_overlap(const Forecast& forecast, const LaunchBook& book, SpanMap& spans, LaunchNumber last,
                       LaunchCount length, Epoch now) {
  const std::uint64_t count = length.count();
  if (count == 0 || last.value < 2 * count) return 0;
  cut_stretch(forecast, book, spans, {last.value - 2 * count + 1}, last, now);
  std::unordered_set<std::uint32_t> older, newer;
  std::vector<SpanUse> uses;
  for (std::uint64_t launch = last.value - 2 * count + 1; launch <= last.value; ++launch) {
    uses.clear();
    book.uses(forecast.shape_at({launch}), spans, now, uses);
    auto& set = launch + count <= last.value ? older : newer;
    for (const SpanUse& use : uses) set.insert(use.span.value);
  }
  double shared_bytes = 0, all_bytes = 0, shared = 0, all = 0;
  for (const std::uint32_t id : newer) {
    const auto bytes = static_cast<double>(spans.span({id}).bytes.count());
    const bool both = older.contains(id);
    all += 1;
    all_bytes += bytes;
    shared += both ? 1 : 0;
    shared_bytes += both ? bytes : 0;
  }
  for (const std::uint32_t id : older) {
    if (newer.contains(id)) continue;
    all += 1;
    all_bytes += static_cast<double>(spans.span({id}).bytes.count());
  }
  return all == 0 ? 0 : std::min(shared / all, shared_bytes / all_bytes);
}

}  // namespace spillway::policy
