// When kernels are timed: in windows of about an iteration, so many launches apart that they are the share of launches
// that `telemetry.sample` asks for. Pure: the caller says how many launches there were and what it did.
//
// Between two windows something is missed, as switching takes time and records come late. So where more than half is
// asked for windows grow, each twice as long as the one before: the first tell soon, and later ones miss little. One
// that was lost is followed by a short one. What was timed is told at a window's end, and lost if the process is
// killed: no window goes on after a second for having grown.
#pragma once

#include "policy/forecast.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

class SampleClock {
 public:
  static constexpr std::uint64_t kFirst = 256;     // launches of warming up, not timed
  static constexpr std::uint64_t kShortest = 512;  // of a window: switching has a price of its own
  static constexpr std::uint64_t kLongest = 8192;
  static constexpr std::uint64_t kLongestGrown = 32768;
  static constexpr Nanoseconds kLongEnough = Nanoseconds(1'000'000'000);

  // `percent` of all launches; 0 never asks.
  explicit SampleClock(double percent) : percent_(percent) {}

  enum class Wish : std::uint8_t { nothing, open, close };
  // `iteration`: its length, zero if none is known.
  [[nodiscard]] Wish ask(LaunchNumber latest, LaunchCount iteration, Nanoseconds now);
  // A window cannot be had now, or was given up: the next one comes at its usual distance.
  void give_up(LaunchNumber latest);
  // The last window could be switched on and off, and nothing of it was lost; or something was.
  void switched(bool whole) { grown_ = whole ? grown_ + 1 : 0; }
  // Of the last window that was asked for; at most.
  [[nodiscard]] LaunchCount length() const { return LaunchCount(length_); }

 private:
  double percent_;
  bool open_ = false;
  std::uint64_t next_ = kFirst;
  std::uint64_t length_ = 0;
  std::uint64_t least_ = 0;  // its length, had it not grown
  std::uint64_t opened_ = 0;
  Nanoseconds opened_at_;
  std::uint32_t grown_ = 0;  // times
};

// Whole iterations, if they are short enough, else as many launches as a window may have.
LaunchCount window_length(LaunchCount iteration);

}  // namespace spillway::policy
