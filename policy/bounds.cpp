#include "policy/bounds.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace spillway::policy {
namespace {

constexpr std::size_t kStretches = 32;
constexpr int kSearchSteps = 40;
constexpr int kRefineSteps = 80;

using Prices = std::array<double, kStretches>;

struct Weights {
  double reads = 1, writes = 1, in = 1, out = 1;
};

Weights weights(Traffic traffic) {
  switch (traffic) {
    case Traffic::both:
      return {};
    case Traffic::in:
      return {1, 0, 1, 0};
    case Traffic::out:
      return {0, 1, 0, 1};
  }
  return {};
}

// The cheapest course of one chunk under prices, found by dynamic programming over its uses.
class Course {
 public:
  Course(const Prices& prices, std::uint32_t duration) : duration_(std::max<std::uint32_t>(duration, 1)) {
    double sum = 0;
    for (std::size_t i = 0; i < kStretches; ++i) {
      sums_[i] = sum;
      sum += prices[i] / kStretches;
    }
    sums_[kStretches] = sum;
    prices_ = prices;
  }
  [[nodiscard]] double whole() const { return sums_[kStretches]; }

  // Cost of the best course; adds the bytes that are resident in each stretch to `resident`.
  double best(const BoundChunk& chunk, const Weights& w, Prices& resident) {
    if (chunk.begins || chunk.ends) {
      const Ends costs = pass(chunk, w, chunk.begins ? 0 : chunk.bytes * rent(0, chunk.uses[0].time), 0);
      walk_back(chunk, costs.inside < costs.outside, resident);
      return std::min(costs.inside, costs.outside);
    }
    // The sequence goes round: what is resident at its beginning was so at its end.
    const double outside = pass(chunk, w, kImpossible, 0).outside;
    stay_.swap(other_stay_);
    const double inside = pass(chunk, w, chunk.bytes * rent(0, chunk.uses[0].time), kImpossible).inside;
    if (outside <= inside) stay_.swap(other_stay_);
    walk_back(chunk, inside < outside, resident);
    return std::min(inside, outside);
  }

 private:
  [[nodiscard]] double at(std::uint32_t time) const {
    const double place = static_cast<double>(time) / duration_ * kStretches;
    const auto stretch = std::min(static_cast<std::size_t>(place), kStretches - 1);
    return sums_[stretch] + (place - static_cast<double>(stretch)) * prices_[stretch] / kStretches;
  }
  [[nodiscard]] double rent(std::uint32_t from, std::uint32_t to) const { return at(to) - at(from); }

  struct Ends {
    double inside = 0, outside = 0;
  };
  // The cheapest courses that end inside and outside; `in` and `out` are what it costs to begin there.
  Ends pass(const BoundChunk& chunk, const Weights& w, double in, double out) {
    const std::size_t n = chunk.uses.size();
    stay_.assign(n, 0);
    const double leave = chunk.written ? chunk.bytes * w.out : 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double in_place = out + chunk.uses[i].reads * w.reads + chunk.uses[i].writes * w.writes;
      const double enter = out + chunk.bytes * w.in;
      unsigned char how = 0;
      double resident_after = in;
      if (enter < in) resident_after = enter, how |= kEnters;
      double out_after = in_place;
      if (resident_after + leave < out_after) out_after = resident_after + leave, how |= kLeaves;
      const std::uint32_t next = i + 1 < n ? chunk.uses[i + 1].time : (chunk.ends ? chunk.uses[i].time : duration_);
      stay_[i] = how;
      in = resident_after + chunk.bytes * rent(chunk.uses[i].time, next);
      out = out_after;
    }
    return {in, out};
  }

  void walk_back(const BoundChunk& chunk, bool inside, Prices& resident) const {
    if (inside && !chunk.ends) occupy(chunk, chunk.uses.back().time, duration_, resident);
    for (std::size_t i = chunk.uses.size(); i-- > 0;) {
      if (inside && i + 1 < chunk.uses.size()) occupy(chunk, chunk.uses[i].time, chunk.uses[i + 1].time, resident);
      if (!inside) inside = (stay_[i] & kLeaves) != 0;
      if (inside && (stay_[i] & kEnters) != 0) inside = false;
    }
    if (inside && !chunk.begins) occupy(chunk, 0, chunk.uses[0].time, resident);
  }
  void occupy(const BoundChunk& chunk, std::uint32_t from, std::uint32_t to, Prices& resident) const {
    const double scale = static_cast<double>(kStretches) / duration_;
    const double begin = from * scale, end = to * scale;
    for (auto i = static_cast<std::size_t>(begin); i < kStretches && static_cast<double>(i) < end; ++i) {
      const double part = std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i));
      resident[i] += chunk.bytes * part;
    }
  }

  std::uint32_t duration_;
  Prices prices_{};
  std::array<double, kStretches + 1> sums_{};
  static constexpr unsigned char kEnters = 1;  // came in for this use
  static constexpr unsigned char kLeaves = 2;  // went out after it
  static constexpr double kImpossible = 1e300;
  std::vector<unsigned char> stay_, other_stay_;
};

struct Evaluated {
  double bound = 0;
  Prices resident{};
};

Evaluated evaluate(const std::vector<BoundChunk>& chunks, double window, std::uint32_t duration, const Prices& prices,
                   const Weights& w) {
  Evaluated result;
  Course course(prices, duration);
  for (const BoundChunk& chunk : chunks) {
    if (!chunk.uses.empty()) result.bound += course.best(chunk, w, result.resident);
  }
  result.bound -= window * course.whole();
  return result;
}

}  // namespace

double least_traffic(const std::vector<BoundChunk>& chunks, double window, std::uint32_t duration, Traffic traffic) {
  const Weights w = weights(traffic);
  Prices prices{};
  Evaluated now = evaluate(chunks, window, duration, prices, w);
  double best = std::max(0.0, now.bound);
  if (*std::max_element(now.resident.begin(), now.resident.end()) <= window) return best;
  // One price for all time first: the bound is concave in it.
  double low = 0, high = 1;
  const auto excess = [&](const Evaluated& e) {
    return std::accumulate(e.resident.begin(), e.resident.end(), 0.0) / kStretches - window;
  };
  for (int i = 0; i < 40; ++i, high *= 2) {
    prices.fill(high);
    if (excess(evaluate(chunks, window, duration, prices, w)) <= 0) break;
  }
  for (int i = 0; i < kSearchSteps; ++i) {
    const double middle = (low + high) / 2;
    prices.fill(middle);
    now = evaluate(chunks, window, duration, prices, w);
    best = std::max(best, now.bound);
    (excess(now) > 0 ? low : high) = middle;
  }
  // Then each stretch its own, along the excess.
  prices.fill((low + high) / 2);
  const double unit = (low + high) / 2;
  for (int i = 0; i < kRefineSteps; ++i) {
    now = evaluate(chunks, window, duration, prices, w);
    best = std::max(best, now.bound);
    const double step = 2 * unit / (1 + i / 4.0) / std::max(window, 1.0);
    for (std::size_t s = 0; s < kStretches; ++s) {
      prices[s] = std::max(0.0, prices[s] + step * (now.resident[s] - window));
    }
  }
  return best;
}

Bounds compute_bounds(const std::vector<BoundChunk>& chunks, Bytes window, std::uint32_t duration,
                      double compute_seconds, const CostTable& costs) {
  const auto size = static_cast<double>(window.count());
  Bounds bounds;
  bounds.compute_seconds = compute_seconds;
  bounds.traffic = least_traffic(chunks, size, duration, Traffic::both);
  const double in = least_traffic(chunks, size, duration, Traffic::in);
  const double out = least_traffic(chunks, size, duration, Traffic::out);
  bounds.seconds =
      std::max({compute_seconds, bounds.traffic / costs.link_both, in / costs.link_in, out / costs.link_out});
  return bounds;
}

}  // namespace spillway::policy
