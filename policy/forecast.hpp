// What the program will launch next, from what it has launched before.
//
// The launch sequence is followed against its own past: after each launch, `matched` is the place in the past that
// looks like now, and what came after it then is the forecast. A place is found by n-grams of launches (32, 8, then 2,
// by function and coarse size, so that tensors at other addresses and lengths that grow do not matter) and by launches
// with the very same pointers. While past and present agree the place moves along. A launch more, less or other in a
// long agreement is stepped over (so a step with one varying kernel stays locked), unless the latest launches are known
// from elsewhere or the distance is known to be none; otherwise the place is looked up again at once. When the
// agreement has lasted for one whole distance, that distance is a candidate for the iteration: the owner compares the
// spans that both periods touch and accepts or rejects it (the layers of a model look alike, but touch other weights).
//
// Memory, fixed: history 2^19 launches x 16 bytes, three n-gram tables of 2^18 x 8 bytes, shape places at most 2^17 x 4
// bytes: 14.5 MiB. No allocation after construction but for shape places.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "policy/units.hpp"
#include "policy/zeroed_array.hpp"

namespace spillway::policy {

// What makes two launches the same step of a program: function and the magnitude of the thread count (its power of two,
// as a cache that grows by a token does not make another step), hashed.
using LaunchKey = Id<struct LaunchKeyTag, std::uint32_t>;
LaunchKey launch_key(FunctionId function, std::uint64_t threads);

// Distance or length in launches.
using LaunchCount = Quantity<struct LaunchCountTag, std::uint64_t>;

// How far a mode has followed the program's iterations.
struct IterationProgress {
  std::uint64_t number = 0;  // of the current one; 0: none was found yet
  LaunchNumber began;        // the last launch before it
  Nanoseconds began_at;
  Nanoseconds took;  // the last whole one; zero: there was none
};

enum class ForecastState : std::uint8_t {
  searching,  // nothing in the past looks like now
  following,  // the past agrees with now, for less than an iteration
  locked,     // an accepted iteration
};

class Forecast {
 public:
  explicit Forecast(unsigned history_bits = 19);

  void launched(LaunchKey key, LaunchShapeId shape);

  // A distance that has held for as long as itself and waits for accept() or reject(); zero if none.
  [[nodiscard]] LaunchCount candidate() const { return candidate_; }
  void accept();
  void reject();
  // The accepted iteration is none after all; its distance is not offered again soon.
  void drop();

  [[nodiscard]] ForecastState state() const;
  [[nodiscard]] LaunchCount period() const { return period_; }  // of the accepted iteration; zero if not locked
  [[nodiscard]] LaunchCount distance() const;                   // back to the matched place; zero if none
  [[nodiscard]] bool boundary() const { return boundary_; }     // the latest launch ended an iteration
  [[nodiscard]] std::uint64_t iterations() const { return iterations_; }  // whole ones since the lock
  [[nodiscard]] std::uint64_t locks() const { return locks_; }            // iterations accepted so far
  [[nodiscard]] LaunchNumber launches() const { return {count_}; }
  // 0 to 1: the share of recent launches that were forecast rightly, by function; halves within 32 launches.
  [[nodiscard]] double confidence() const { return confidence_; }

  // The launch that should come `ahead` launches from now (1 is the next); none if nothing in the past looks like now.
  // Where there is no iteration this is what followed the longest context seen before: a Markov chain of high order.
  [[nodiscard]] LaunchShapeId predicted(LaunchCount ahead) const;

  // A launch of the past; none if it has left the history.
  [[nodiscard]] LaunchShapeId shape_at(LaunchNumber launch) const;
  [[nodiscard]] LaunchCount remembered() const { return LaunchCount(count_ < capacity_ ? count_ : capacity_); }

  [[nodiscard]] std::string check_invariants() const;

 private:
  struct Entry {
    std::uint64_t prefix;  // polynomial hash of all keys up to here
    std::uint32_t key;
    std::uint32_t shape;
  };
  struct Place {
    std::uint32_t check;
    std::uint32_t launch;  // low 32 bits of the launch number
  };
  static constexpr std::array<unsigned, 3> kGrams{32, 8, 2};

  [[nodiscard]] const Entry& entry(std::uint64_t launch) const { return history_[launch & mask_]; }
  [[nodiscard]] bool known(std::uint64_t launch) const {
    return launch != 0 && launch <= count_ && launch + capacity_ > count_;
  }
  [[nodiscard]] std::uint64_t gram(std::uint64_t launch, std::size_t which) const;
  [[nodiscard]] std::uint64_t widen(std::uint32_t launch) const;
  [[nodiscard]] std::uint64_t place_of_shape(std::uint32_t shape) const;
  [[nodiscard]] std::uint64_t place_of_gram(std::size_t which) const;
  [[nodiscard]] std::uint64_t first_of_repeats(std::uint64_t place) const;
  void follow(std::uint32_t key, std::uint32_t shape);
  [[nodiscard]] bool step_over(std::uint32_t key);
  void look_up(std::uint32_t shape);
  void vote(std::uint32_t shape);
  void set_match(std::uint64_t launch);
  void remember(std::uint32_t shape);
  void unlock();

  std::uint64_t capacity_;
  std::uint64_t mask_;
  ZeroedArray<Entry> history_;
  std::array<ZeroedArray<Place>, kGrams.size()> places_;
  std::array<std::uint64_t, kGrams.size()> powers_{};
  std::vector<std::uint32_t> last_of_shape_;
  std::uint64_t count_ = 0;
  std::uint64_t matched_ = 0;     // launch number of the place that corresponds to the latest launch; 0 none
  std::uint64_t run_ = 0;         // launches for which past and present have agreed at this distance
  std::uint64_t next_check_ = 0;  // run at which the distance becomes a candidate (again)
  std::uint64_t voted_distance_ = 0;
  unsigned votes_ = 0;
  std::uint64_t exact_ = 0;  // the part of the run since the last step over
  unsigned misses_in_a_row_ = 0;
  std::uint64_t misses_ = 0;  // in this iteration
  bool rejected_ = false;     // the distance followed is no iteration
  LaunchCount candidate_;
  LaunchCount period_;
  std::uint64_t into_iteration_ = 0;
  std::uint64_t iterations_ = 0;
  std::uint64_t locks_ = 0;
  bool boundary_ = false;
  double confidence_ = 0;
};

}  // namespace spillway::policy
