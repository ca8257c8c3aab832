// Figures per stretch of time, without knowing how long the run will be: bins of equal width that double their width
// whenever more than `most` would be needed. One pass, bounded memory; the levels of the page's pyramids are made of
// it.
//
// A Bin has merge(const Bin& later), which makes it stand for both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/units.hpp"

namespace spillway::tools::view {

template <class Bin>
class TimeBins {
 public:
  explicit TimeBins(std::size_t most) : most_(most) {}

  // The bin that holds `time`; times before the start count as the start. Valid until the next call.
  Bin& at(policy::Nanoseconds time) { return bins_[make(index(time))]; }

  // Calls `part(bin, share)` for each bin that [start, end) touches; the shares add up to 1.
  template <class Part>
  void spread(policy::Nanoseconds start, policy::Nanoseconds end, const Part& part) {
    make(index(std::max(start, end)));
    const std::int64_t from = std::max<std::int64_t>(0, start.count());
    const std::int64_t to = std::max(from, end.count());
    const auto first = static_cast<std::size_t>(from / width_);
    const auto last = static_cast<std::size_t>(to / width_);
    if (first == last) return part(bins_[first], 1.0);
    const auto whole = static_cast<double>(to - from);
    for (std::size_t i = first; i <= last; ++i) {
      const std::int64_t begin = std::max(from, static_cast<std::int64_t>(i) * width_);
      const std::int64_t stop = std::min(to, (static_cast<std::int64_t>(i) + 1) * width_);
      part(bins_[i], static_cast<double>(stop - begin) / whole);
    }
  }

  [[nodiscard]] policy::Nanoseconds width() const { return policy::Nanoseconds(width_); }
  [[nodiscard]] const std::vector<Bin>& bins() const { return bins_; }

  // The same at `factor` times the width, a power of two.
  [[nodiscard]] TimeBins coarser(std::size_t factor) const {
    TimeBins result = *this;
    for (; factor > 1; factor /= 2) result.widen();
    return result;
  }

 private:
  [[nodiscard]] std::size_t index(policy::Nanoseconds time) const {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, time.count()) / width_);
  }
  std::size_t make(std::size_t index) {
    while (index >= most_) {
      widen();
      index /= 2;
    }
    if (index >= bins_.size()) bins_.resize(index + 1);
    return index;
  }
  void widen() {
    const std::size_t half = (bins_.size() + 1) / 2;
    for (std::size_t i = 0; i < half; ++i) {
      Bin bin = bins_[2 * i];
      if (2 * i + 1 < bins_.size()) bin.merge(bins_[2 * i + 1]);
      bins_[i] = bin;
    }
    bins_.resize(half);
    width_ *= 2;
  }

  std::size_t most_;
  std::int64_t width_ = 1024;
  std::vector<Bin> bins_;
};

}  // namespace spillway::tools::view
