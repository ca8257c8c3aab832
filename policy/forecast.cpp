#include "policy/forecast.hpp"

#include <algorithm>
#include <bit>

namespace spillway::policy {
namespace {

constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15ull | 1;
constexpr unsigned kPlaceBits = 18;
constexpr std::size_t kMostShapes = std::size_t{1} << 17;  // the newest; older ones lose their place
// Launches in a row that must point to one other distance before it replaces the one followed.
constexpr unsigned kVotes = 3;
// An iteration of so many launches is not given up for pointers; a shorter one may be a loop within one.
constexpr LaunchCount kLongPeriod = LaunchCount(256);
constexpr unsigned kVotesAgainstLock = 32;
// An agreement this long is not given up for a few launches.
constexpr std::uint64_t kLongRun = 32;
constexpr unsigned kMissesInARow = 8;
constexpr std::uint64_t kSkipAhead = 64;
// A launch with the very same pointers says more than two functions in a row, and less than eight.
constexpr std::size_t kAfterShape = 2;

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93ull;
  x ^= x >> 32;
  return x;
}

}  // namespace

LaunchKey launch_key(FunctionId function, std::uint64_t threads) {
  const auto magnitude = static_cast<std::uint64_t>(std::bit_width(threads));
  const std::uint64_t hash = mix((std::uint64_t{function.value} << 40) ^ mix(magnitude + 1));
  return {static_cast<std::uint32_t>(hash) | 1u};
}

Forecast::Forecast(unsigned history_bits)
    : capacity_(std::uint64_t{1} << history_bits), mask_(capacity_ - 1), history_(capacity_) {
  for (auto& table : places_) table = ZeroedArray<Place>(std::size_t{1} << std::min(kPlaceBits, history_bits + 1));
  for (std::size_t which = 0; which < kGrams.size(); ++which) {
    powers_[which] = 1;
    for (unsigned i = 0; i < kGrams[which]; ++i) powers_[which] *= kBase;
  }
}

std::uint64_t Forecast::gram(std::uint64_t launch, std::size_t which) const {
  const std::uint64_t before = launch - kGrams[which];
  const std::uint64_t prefix = before == 0 ? 0 : entry(before).prefix;
  return mix(entry(launch).prefix - prefix * powers_[which]);
}

// The launch number with these low bits that is nearest below the present.
std::uint64_t Forecast::widen(std::uint32_t launch) const {
  const auto low = static_cast<std::uint32_t>(count_);
  return count_ - static_cast<std::uint32_t>(low - launch);
}

void Forecast::launched(LaunchKey key, LaunchShapeId shape) {
  boundary_ = false;
  const std::uint64_t prefix = count_ == 0 ? 0 : entry(count_).prefix;
  ++count_;
  history_[count_ & mask_] = {prefix * kBase + key.value, key.value, shape.value};
  follow(key.value, shape.value);
  remember(shape.value);
  if (period_ != LaunchCount() && ++into_iteration_ == period_.count()) {
    into_iteration_ = 0;
    boundary_ = true;
    misses_ = 0;
    // Launches stepped over may have changed it; while the place waits the distance says nothing.
    if (misses_in_a_row_ == 0) period_ = distance();
    ++iterations_;
  }
}

void Forecast::follow(std::uint32_t key, std::uint32_t shape) {
  const std::uint64_t next = matched_ + 1;
  const bool right = matched_ != 0 && known(next) && next < count_ && entry(next).key == key;
  confidence_ += ((right ? 1.0 : 0.0) - confidence_) / 32;
  if (!right) {
    // Before there is an iteration, a place that looks like all of the latest launches is better than one that does
    // not.
    const std::uint64_t better = period_ == LaunchCount() ? place_of_gram(0) : 0;
    if (better == 0 && step_over(key)) return;
    unlock();
    if (better != 0) return set_match(better);
    look_up(shape);
    return;
  }
  matched_ = next;
  misses_in_a_row_ = 0;
  ++run_;
  ++exact_;
  if (entry(next).shape != shape) {
    vote(shape);
  } else if (votes_ != 0 && (!known(count_ - voted_distance_) || entry(count_ - voted_distance_).shape != shape)) {
    votes_ = 0;
  }
  if (run_ >= next_check_ && period_ == LaunchCount()) candidate_ = distance();
}

// A long agreement survives some launches that are new, missing or others: the place waits, or skips ahead to this
// launch.
bool Forecast::step_over(std::uint32_t key) {
  if (matched_ == 0 || run_ < kLongRun || rejected_ || !known(matched_)) return false;
  const std::uint64_t allowed = std::max<std::uint64_t>(kMissesInARow, run_ / 16);
  if (++misses_in_a_row_ > kMissesInARow || ++misses_ > allowed) return false;
  exact_ = 0;
  for (std::uint64_t place = matched_ + 1; place <= matched_ + kSkipAhead && place < count_; ++place) {
    if (entry(place).key != key) continue;
    matched_ = place;
    exact_ = 1;
    return true;
  }
  return true;
}

// The pointers differ from those at the matched place. If the very same launch is known from elsewhere, that distance
// is better: pieces of one array, streamed by one function, tell their place only by their pointers.
void Forecast::vote(std::uint32_t shape) {
  // Buffers that take turns come back after some iterations, which are none the less iterations.
  if (period_ >= kLongPeriod) return;
  const std::uint64_t place = first_of_repeats(place_of_shape(shape));
  if (place == 0) return;
  const std::uint64_t other = count_ - place;
  // A shorter distance is a part of the one followed (a layer of a token), unless that has been found to be none.
  if (other < distance().count() && !rejected_) return;
  votes_ = other == voted_distance_ ? votes_ + 1 : 1;
  voted_distance_ = other;
  const unsigned needed = period_ == LaunchCount() ? kVotes : kVotesAgainstLock;
  if (votes_ < needed || other == distance().count()) return;
  unlock();
  set_match(place);
  // The launches that told of this distance have agreed already, and those before them perhaps.
  while (run_ < other && known(place - run_) && entry(place - run_).shape == entry(count_ - run_).shape) ++run_;
}

// In a loop within a loop a launch is seen again and again before the next part begins: where the part began that is
// followed now, that is the place.
std::uint64_t Forecast::first_of_repeats(std::uint64_t place) const {
  const std::uint64_t repeat = distance().count();
  while (place > repeat && known(place - repeat) && entry(place - repeat).shape == entry(place).shape) place -= repeat;
  return place;
}

std::uint64_t Forecast::place_of_shape(std::uint32_t shape) const {
  const std::size_t slot = shape % kMostShapes;
  if (slot >= last_of_shape_.size() || last_of_shape_[slot] == 0) return 0;
  const std::uint64_t place = widen(last_of_shape_[slot]);
  return known(place) && place < count_ && entry(place).shape == shape ? place : 0;
}

// Where the latest launches, as many as the gram has, were seen before; 0 nowhere.
std::uint64_t Forecast::place_of_gram(std::size_t which) const {
  if (count_ < kGrams[which]) return 0;
  const std::uint64_t hash = gram(count_, which);
  const Place& place = places_[which][hash & (places_[which].size() - 1)];
  if (place.launch == 0 || place.check != static_cast<std::uint32_t>(hash >> 32)) return 0;
  const std::uint64_t launch = widen(place.launch);
  return known(launch) && launch < count_ && entry(launch).key == entry(count_).key ? launch : 0;
}

void Forecast::set_match(std::uint64_t launch) {
  matched_ = launch;
  run_ = 1;
  exact_ = 1;
  votes_ = 0;
  misses_ = 0;
  misses_in_a_row_ = 0;
  rejected_ = false;
  next_check_ = std::max<std::uint64_t>(distance().count(), 2);
}

void Forecast::look_up(std::uint32_t shape) {
  matched_ = 0;
  run_ = 0;
  exact_ = 0;
  for (std::size_t which = 0; which < kGrams.size(); ++which) {
    if (which == kAfterShape) {
      const std::uint64_t place = place_of_shape(shape);
      if (place != 0 && entry(place).key == entry(count_).key) return set_match(place);
    }
    if (const std::uint64_t place = place_of_gram(which); place != 0) return set_match(place);
  }
}

void Forecast::remember(std::uint32_t shape) {
  for (std::size_t which = 0; which < kGrams.size(); ++which) {
    if (count_ < kGrams[which]) continue;
    const std::uint64_t hash = gram(count_, which);
    places_[which][hash & (places_[which].size() - 1)] = {static_cast<std::uint32_t>(hash >> 32),
                                                          static_cast<std::uint32_t>(count_)};
  }
  const std::size_t slot = shape % kMostShapes;
  if (slot >= last_of_shape_.size()) {
    last_of_shape_.resize(std::min(kMostShapes, std::max<std::size_t>(slot + 1, last_of_shape_.size() * 2)));
  }
  last_of_shape_[slot] = static_cast<std::uint32_t>(count_);
}

void Forecast::unlock() {
  candidate_ = {};
  period_ = {};
  into_iteration_ = 0;
  iterations_ = 0;
}

void Forecast::accept() {
  if (candidate_ == LaunchCount()) return;
  period_ = candidate_;
  candidate_ = {};
  into_iteration_ = 0;
  iterations_ = 0;
  ++locks_;
}

void Forecast::reject() {
  candidate_ = {};
  rejected_ = true;
  next_check_ = run_ * 2;
}

void Forecast::drop() {
  unlock();
  reject();
}

ForecastState Forecast::state() const {
  if (matched_ == 0) return ForecastState::searching;
  return period_ == LaunchCount() ? ForecastState::following : ForecastState::locked;
}

LaunchCount Forecast::distance() const { return LaunchCount(matched_ == 0 ? 0 : count_ - matched_); }

LaunchShapeId Forecast::predicted(LaunchCount ahead) const {
  if (ahead == LaunchCount() || matched_ == 0) return {};
  // Past the present the forecast repeats itself at the same distance.
  const std::uint64_t step = (ahead.count() - 1) % distance().count() + 1;
  return known(matched_ + step) ? LaunchShapeId{entry(matched_ + step).shape} : LaunchShapeId{};
}

LaunchShapeId Forecast::shape_at(LaunchNumber launch) const {
  return known(launch.value) ? LaunchShapeId{entry(launch.value).shape} : LaunchShapeId{};
}

std::string Forecast::check_invariants() const {
  if (matched_ >= count_ && matched_ != 0) return "the matched place is not in the past";
  if (period_ != LaunchCount() && matched_ == 0) return "an iteration, but no place in the past";
  if (into_iteration_ != 0 && into_iteration_ >= period_.count()) return "past the end of the iteration";
  for (std::uint64_t back = 0; back < std::min<std::uint64_t>(exact_, 64) && matched_ != 0 && misses_in_a_row_ == 0;
       ++back) {
    if (!known(matched_ - back)) break;
    if (entry(matched_ - back).key != entry(count_ - back).key) return "the run does not agree with the past";
  }
  return {};
}

}  // namespace spillway::policy
