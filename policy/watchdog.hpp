// Never slower: compares the time of iterations with what it was before the last change, and says when to take it back.
// Iterations that grow by themselves (a KV cache that fills) are expected to grow on as they did before the change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/units.hpp"

namespace spillway::policy {

enum class Verdict : std::uint8_t {
  none,    // nothing to judge, or not enough iterations yet
  keep,    // the change did not make iterations slower
  revert,  // it did
};

class Watchdog {
 public:
  // Iterations are compared by the median of this many before and after.
  static constexpr std::size_t kSample = 3;
  // Slower by more than this share is a bad change; less is what programs do by themselves. A wrong plan costs far
  // more: what it sends away by mistake is re-read over a link that is a hundredth as fast as HBM.
  static constexpr double kTolerance = 0.15;

  // Another iteration of the same kind took this long. `settled`: no move of the change is still open.
  enum class Moves : std::uint8_t { open, settled };
  Verdict iteration(Nanoseconds took, Moves moves);
  // A change of placement begins now.
  void change();
  // Another iteration was found: times before say nothing about times from here on.
  void reset();

  [[nodiscard]] bool judging() const { return judging_; }
  // A change made now could be judged.
  [[nodiscard]] bool has_baseline() const { return judging_ || count_ >= kSample; }
  [[nodiscard]] Nanoseconds before() const { return before_; }
  [[nodiscard]] Nanoseconds after() const { return after_; }

 private:
  [[nodiscard]] Nanoseconds median() const;
  [[nodiscard]] Nanoseconds oldest() const { return recent_[count_ % kSample]; }
  [[nodiscard]] Nanoseconds latest() const { return recent_[(count_ + kSample - 1) % kSample]; }

  std::array<Nanoseconds, kSample> recent_{};
  std::size_t count_ = 0;  // of recent_, since the last change or reset
  bool judging_ = false;
  bool skip_ = false;         // the first iteration after the moves ended is still half old
  std::int64_t elapsed_ = 0;  // iterations since the change
  double growth_ = 0;         // nanoseconds an iteration, before the change
  Nanoseconds before_;
  Nanoseconds after_;
};

}  // namespace spillway::policy
