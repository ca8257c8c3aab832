// Spillway's moves: each from its decision to its end, what crossed the link over time, and how long somebody waited.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "tools/view/allocations.hpp"
#include "tools/view/time_bins.hpp"

namespace spillway::tools::view {

struct ViewMove {
  policy::DecisionId decision;
  Row row = 0;
  policy::Bytes offset;
  policy::Bytes bytes;
  policy::Placement to = policy::Placement::device;
  policy::Urgency urgency = policy::Urgency::background;
  policy::Reason reason = policy::Reason::mode;
  policy::MoveOutcome outcome = policy::MoveOutcome::done;
  bool crossed = false;         // bytes came from the other side; else it was a first placement, or changed nothing
  policy::Nanoseconds decided;  // when
  policy::Nanoseconds start;    // of the driver's call
  policy::Nanoseconds end;
};

struct TrafficBin {
  std::uint64_t in = 0;         // bytes moved to the device
  std::uint64_t out = 0;        // and to the host
  std::uint64_t copied_in = 0;  // by the program
  std::uint64_t copied_out = 0;
  std::uint64_t waited = 0;         // ns of moves that a call waited for
  std::uint64_t named_on_host = 0;  // bytes that launches named, and that were on the host
  void merge(const TrafficBin& later);
};

class Moves {
 public:
  void decide(policy::Nanoseconds time, const policy::Decision& decision, const policy::MoveRange& move,
              Allocations& allocations);
  // `crossed`: bytes of this move that changed sides, as the summary counts them.
  void finish(policy::Nanoseconds time, const policy::MoveFinished& finished, policy::Bytes crossed,
              Allocations& allocations);
  void copied(policy::Nanoseconds time, const policy::Copied& copy);
  void launched(policy::Nanoseconds time, policy::Bytes named_on_host);

  // Bytes of open moves to the device.
  [[nodiscard]] policy::Bytes arriving(policy::DeviceIndex device) const;
  [[nodiscard]] const std::vector<ViewMove>& done() const { return done_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  [[nodiscard]] policy::Bytes named_on_host() const { return named_on_host_; }
  Json to_json(Blocks& blocks) const;

 private:
  static constexpr std::size_t kMost = 500'000;
  static constexpr std::size_t kMostBins = 32768;
  struct Open {
    ViewMove move;
    policy::DeviceIndex device;
  };
  std::unordered_map<policy::DecisionId, Open> open_;
  std::unordered_map<std::uint32_t, policy::Bytes> arriving_;  // by device
  std::vector<ViewMove> done_;
  std::uint64_t left_out_ = 0;
  policy::Bytes named_on_host_;
  TimeBins<TrafficBin> traffic_{kMostBins};
};

}  // namespace spillway::tools::view
