// What each device holds over time, against its budget. A bin of time shows the moment at which most was held: a peak
// that broke the budget for an instant is seen from afar.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/engine.hpp"
#include "tools/view/blocks.hpp"
#include "tools/view/time_bins.hpp"

namespace spillway::tools::view {

struct Held {
  std::uint64_t plain = 0;
  std::uint64_t reserved = 0;  // by Spillway itself
  std::uint64_t resident = 0;  // managed, in HBM
  std::uint64_t arriving = 0;
  std::uint64_t on_host = 0;
  [[nodiscard]] std::uint64_t in_hbm() const { return plain + reserved + resident + arriving; }
  friend bool operator==(const Held&, const Held&) = default;
};

struct HeldBin {
  struct Moment {
    policy::Nanoseconds time;
    Held held;
  };
  bool known = false;
  Moment fullest;
  Moment last;
  void merge(const HeldBin& later);
};

class ResidencySeries {
 public:
  // Call after each record that may have changed it.
  void add(policy::Nanoseconds time, const policy::DeviceTotals& totals, policy::Bytes arriving);
  // Levels with points {time, five figures}: at most two in a bin, none where nothing changes.
  [[nodiscard]] Json to_json(Blocks& blocks) const;

 private:
  static constexpr std::size_t kMostBins = 65536;
  TimeBins<HeldBin> bins_{kMostBins};
  Held now_;
};

}  // namespace spillway::tools::view
