// When kernels are timed: in windows of about an iteration, so many launches apart that they are the share of launches
// that `telemetry.sample` asks for. Pure: the caller says how many launches there were and what it did.
#pragma once

#include "policy/forecast.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

class SampleClock {
 public:
  static constexpr std::uint64_t kFirst = 256;     // launches of warming up, not timed
  static constexpr std::uint64_t kShortest = 512;  // of a window: switching has a price of its own
  static constexpr std::uint64_t kLongest = 8192;

  // `percent` of all launches; 0 never asks.
  explicit SampleClock(double percent) : percent_(percent) {}

  enum class Wish : std::uint8_t { nothing, open, close };
  // `iteration`: its length, zero if none is known.
  [[nodiscard]] Wish ask(LaunchNumber latest, LaunchCount iteration);
  // A window cannot be had now, or was given up: the next one comes at its usual distance.
  void give_up(LaunchNumber latest);
  // Of the last window that was asked for.
  [[nodiscard]] LaunchCount length() const { return LaunchCount(length_); }

 private:
  double percent_;
  bool open_ = false;
  std::uint64_t next_ = kFirst;
  std::uint64_t length_ = 0;
};

// Whole iterations, if they are short enough, else as many launches as a window may have.
LaunchCount window_length(LaunchCount iteration);

}  // namespace spillway::policy
